"""What kernels do, by the names that an H100 gave them under torch 2.11."""

from __future__ import annotations

import pytest

from perfmod.profile.kernels import Share, Work, format_of, shares, work_of

NATIVE = "void at::native::"


@pytest.mark.parametrize(("name", "work", "number"), [
    ("void cutlass::Kernel2<cutlass_80_tensorop_s1688gemm_64x64_32x6_nt_align4>(...)", Work.MATMUL, "tf32"),
    ("void cutlass::Kernel2<cutlass_80_simt_sgemm_64x64_8x5_tn_align1>(...)", Work.MATMUL, "fp32"),
    ("void cutlass::Kernel2<cutlass_80_tensorop_bf16_s16816gemm_relu_bf16_64x64>(...)", Work.MATMUL, "bf16"),
    ("sm80_xmma_gemm_f32f32_f32f32_f32_nt_n_tilesize32x32x8_stage3", Work.MATMUL, "fp32"),
    ("nvjet_tst_128x256_64x4_1x2_h_bz_coopB_TNT", Work.MATMUL, "bf16"),
    ("sm80_xmma_fprop_implicit_gemm_tf32f32_tf32f32_f32_nhwckrsc_nchw", Work.CONVOLUTION, "tf32"),
    ("sm90_xmma_wgrad_indexed_implicit_gemm_f32f32_tf32f32_f32_nhwckrsc_nhwc", Work.CONVOLUTION, "tf32"),
    ("void pytorch_flash::flash_fwd_kernel<Flash_fwd_kernel_traits<64, 128>>(...)", Work.ATTENTION, ""),
    ("void RNN_blockPersist_fp_GRU<float, float, float, 128>(float const*)", Work.RECURRENT, "fp32"),
    ("void cudnn::bn_bw_1C11_kernel_new<float, float, float2, 128, true, 1>(float)", Work.NORMALISATION, "fp32"),
    ("void cudnn::engines_precompiled::nchwToNhwcKernel<float, float, float>(...)", Work.LAYOUT, "fp32"),
    (f"{NATIVE}(anonymous namespace)::multi_tensor_apply_kernel<...>(...)", Work.OPTIMIZER, ""),
    (f"{NATIVE}(anonymous namespace)::embedding_backward_feature_kernel<float>(...)", Work.INDEXING, "fp32"),
    (f"{NATIVE}reduce_kernel<512, 1, at::native::ReduceOp<c10::BFloat16>>(...)", Work.REDUCTION, "bf16"),
    (f"{NATIVE}vectorized_elementwise_kernel<4, at::native::FillFunctor<float>>(...)", Work.ELEMENTWISE, "fp32"),
    (f"{NATIVE}elementwise_kernel<128, 2, at::native::direct_copy_kernel_cuda>(...)", Work.COPY, ""),
    ("triton_poi_fused_add_relu_3", Work.ELEMENTWISE, ""),
    ("Memcpy HtoD (Pageable -> Device)", Work.COPY, ""),
    ("my_own_kernel", Work.OTHER, ""),
])  # fmt: skip
def test_names(name: str, work: Work, number: str) -> None:
    assert (work_of(name), format_of(name)) == (work, number)


def test_sorts_are_added_up_and_formats_told_apart_where_they_matter() -> None:
    seen = {
        "sgemm_a": (2.0, 0.5),
        "sgemm_b": (1.0, 0.25),
        "bf16_gemm": (1.0, 0.1),
        "void elementwise<float>": (4.0, 1.0),
        "void elementwise<double>": (1.0, 1.0),
    }
    assert shares(seen) == (
        Share(Work.ELEMENTWISE, "", 5.0, 2.0),
        Share(Work.MATMUL, "fp32", 3.0, 0.75),
        Share(Work.MATMUL, "bf16", 1.0, 0.1),
    )

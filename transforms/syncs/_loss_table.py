"""The losses of `torch.nn.functional` that reduce: how each of them takes a mask inside, or why it cannot.

Three facts make a form equal to the loss of the selection, in values, gradients and for a mask of nothing:

- What is left out is read as 0, through a `where` in front of the loss, so that a NaN or an infinity there reaches
  neither the loss nor, by way of `0 * inf`, a gradient.
- What is left out adds nothing to the sum: the loss ignores it, is 0 at 0, or is put to 0 by a second `where`.
- The sum is divided by what the selection would have counted. Of nothing that is 0 / 0, which is NaN, as the mean is,
  and every gradient is 0, as that of an empty selection.
"""

from __future__ import annotations

import enum

from attrs import frozen


class Inside(enum.Enum):
    """Where a loss takes the mask."""

    TARGET = "the target is its `ignore_index` where the mask is false"
    SIDES = "it is 0 where both sides are"
    EACH = "it is computed for each element, and put to 0 where the mask is false"
    ROWS = "it is computed for each row, and put to 0 where the mask is false"
    NOWHERE = "it has no equal form"


_OLD = ("size_average", "reduce", "reduction")
_PAIR = ("input", "target")
_TRIPLET = ("anchor", "positive", "negative")


@frozen
class KnownLoss:
    """What a loss takes.

    Attributes:
        module: the class in `torch.nn`.
        inside: where the mask goes.
        options: the other arguments of the function, and of the class, in order.
        sides: the arguments that hold one element or row for each sample.
        rows: those of `sides` that hold rows where the others hold one number for each.
        unequal: options under which the form would not be equal.
        same_shapes: whether it refuses sides of different shapes, which the others broadcast.
        takes_weights: whether its `weight` holds one number for each element, and its mean does not divide by them.
        reason: why it has no form; empty where it has one.
    """

    module: str
    inside: Inside
    options: tuple[str, ...] = _OLD
    sides: tuple[str, ...] = _PAIR
    rows: tuple[str, ...] = ()
    unequal: frozenset[str] = frozenset()
    same_shapes: bool = False
    takes_weights: bool = False
    reason: str = ""


_WEIGHT = frozenset({"weight"})

LOSSES = {
    "cross_entropy": KnownLoss(
        "CrossEntropyLoss",
        Inside.TARGET,
        ("weight", "size_average", "ignore_index", "reduce", "reduction", "label_smoothing"),
    ),
    "nll_loss": KnownLoss("NLLLoss", Inside.TARGET, ("weight", "size_average", "ignore_index", "reduce", "reduction")),
    "mse_loss": KnownLoss("MSELoss", Inside.SIDES, (*_OLD, "weight"), unequal=_WEIGHT),
    "l1_loss": KnownLoss("L1Loss", Inside.SIDES, (*_OLD, "weight"), unequal=_WEIGHT),
    "smooth_l1_loss": KnownLoss("SmoothL1Loss", Inside.SIDES, (*_OLD, "beta")),
    "huber_loss": KnownLoss("HuberLoss", Inside.SIDES, ("reduction", "delta", "weight"), unequal=_WEIGHT),
    # At a target of 0, x * log(x) is 0; with log_target, exp(0) * (0 - 0) is.
    "kl_div": KnownLoss("KLDivLoss", Inside.SIDES, (*_OLD, "log_target")),
    "binary_cross_entropy": KnownLoss("BCELoss", Inside.SIDES, ("weight", *_OLD), same_shapes=True, takes_weights=True),
    # It is log(2) at 0, times a weight, which is the mask.
    "binary_cross_entropy_with_logits": KnownLoss(
        "BCEWithLogitsLoss",
        Inside.SIDES,
        ("weight", *_OLD, "pos_weight"),
        same_shapes=True,
        takes_weights=True,
    ),
    "poisson_nll_loss": KnownLoss(
        "PoissonNLLLoss", Inside.EACH, ("log_input", "full", "size_average", "eps", "reduce", "reduction")
    ),
    "soft_margin_loss": KnownLoss("SoftMarginLoss", Inside.EACH),
    "hinge_embedding_loss": KnownLoss("HingeEmbeddingLoss", Inside.EACH, ("margin", *_OLD)),
    "margin_ranking_loss": KnownLoss(
        "MarginRankingLoss",
        Inside.EACH,
        ("margin", *_OLD),
        sides=("input1", "input2", "target"),
        same_shapes=True,
    ),
    "cosine_embedding_loss": KnownLoss(
        "CosineEmbeddingLoss",
        Inside.ROWS,
        ("margin", *_OLD),
        sides=("input1", "input2", "target"),
        rows=("input1", "input2"),
    ),
    "triplet_margin_loss": KnownLoss(
        "TripletMarginLoss", Inside.ROWS, ("margin", "p", "eps", "swap", *_OLD), sides=_TRIPLET, rows=_TRIPLET
    ),
    "triplet_margin_with_distance_loss": KnownLoss(
        "TripletMarginWithDistanceLoss",
        Inside.ROWS,
        ("distance_function", "margin", "swap", "reduction"),
        sides=_TRIPLET,
        rows=_TRIPLET,
        unequal=frozenset({"distance_function"}),
    ),
    "multilabel_soft_margin_loss": KnownLoss(
        "MultiLabelSoftMarginLoss", Inside.ROWS, ("weight", *_OLD), rows=_PAIR, unequal=_WEIGHT
    ),
    "multi_margin_loss": KnownLoss(
        "MultiMarginLoss",
        Inside.NOWHERE,
        ("p", "margin", "weight", *_OLD),
        reason="of an empty selection it returns memory that nobody has written, which nothing can be equal to",
    ),
    "multilabel_margin_loss": KnownLoss(
        "MultiLabelMarginLoss",
        Inside.NOWHERE,
        reason="of an empty selection it returns memory that nobody has written, which nothing can be equal to",
    ),
    "gaussian_nll_loss": KnownLoss(
        "GaussianNLLLoss",
        Inside.NOWHERE,
        ("full", "eps", "reduction"),
        sides=("input", "target", "var"),
        reason="it waits for the device itself, to check the signs of its variances",
    ),
    "ctc_loss": KnownLoss(
        "CTCLoss",
        Inside.NOWHERE,
        ("blank", "reduction", "zero_infinity"),
        sides=("log_probs", "targets", "input_lengths", "target_lengths"),
        reason="it aligns whole sequences, and the selected labels in a row are its targets",
    ),
    "linear_cross_entropy": KnownLoss(
        "LinearCrossEntropyLoss",
        Inside.NOWHERE,
        (),
        sides=("input", "linear_weight", "target"),
        reason="it multiplies its input by the weights of all classes, which costs more for rows that are left out",
    ),
}

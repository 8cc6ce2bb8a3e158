"""PM406: what is written in every step, and what stands behind a test."""

from __future__ import annotations

import textwrap

import pytest
from whole_files import WholeFiles

from perfmod.transforms.leftovers.written_every_step import WrittenEveryStep

FILES = WholeFiles(WrittenEveryStep())


def train(step: str, end: str = "") -> str:
    loop = "for step, x in enumerate(loader):\n    loss = model(x).sum()\n    loss.backward()\n    optimizer.step()\n"
    return f"{loop}{textwrap.indent(step, '    ')}\n{end}"


ADVISED = {
    "model": ("torch.save(model.state_dict(), 'm.pt')", "checkpoint"),
    "pretrained": ("model.save_pretrained('out')", "checkpoint"),
    "image": ("writer.add_images('x', x, step)", "image"),
    "histogram": ("writer.add_histogram('w', w, step)", "histogram"),
    "file of an image": ("from torchvision.utils import save_image\nsave_image(x, 'x.png')", "image"),
    "in a block": ("with torch.no_grad():\n    torch.save(x, 'x.pt')", "checkpoint"),
}


@pytest.mark.parametrize(("step", "what"), ADVISED.values(), ids=ADVISED)
def test_is_advised_on(step: str, what: str) -> None:
    (found,) = FILES.reports(train(step))
    assert not found.refused
    assert what in found.reason


def test_a_helper_that_every_step_calls() -> None:
    (found,) = FILES.reports("def save(m):\n    torch.save(m, 'm.pt')\n\n\n" + train("save(model)"))
    assert found.line == 5


GATED = {
    "every thousandth": train("if step % 1000 == 0:\n    torch.save(model, 'm.pt')"),
    "best": train("if loss < best:\n    torch.save(model, 'm.pt')"),
    "rank": train("if rank == 0 and done:\n    torch.save(model, 'm.pt')"),
    "gated helper": "def save(m):\n    torch.save(m, 'm.pt')\n\n\n" + train("if step == 3:\n    save(model)"),
}


@pytest.mark.parametrize("code", GATED.values(), ids=GATED)
def test_what_a_test_decides_about_stays(code: str) -> None:
    (reason,) = FILES.reasons(code)
    assert reason.startswith("it is written only under the condition on line")


SILENT = {
    "behind the loop": train("pass", "torch.save(model, 'm.pt')"),
    "epoch": (
        "for epoch in range(3):\n    for x in loader:\n        model(x).sum().backward()\n    torch.save(model, 'm.pt')"
    ),
    "no training": "for x in loader:\n    torch.save(model(x), 'x.pt')",
    "scalar": train("writer.add_scalar('loss', loss.item(), step)"),
}


@pytest.mark.parametrize("code", SILENT.values(), ids=SILENT)
def test_is_silent(code: str) -> None:
    assert FILES.reasons(code) == []

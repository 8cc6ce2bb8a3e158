"""ZOO.toml, and the surroundings in which strangers' scripts run."""

from __future__ import annotations

from pathlib import Path

import pytest

from perfmod.errors import UsageMistake
from perfmod.migrate.redaction import Secrets, redacted
from perfmod.migrate.zoo import Zoo, digest


def test_reads_what_a_file_says(tmp_path: Path) -> None:
    path = tmp_path / "ZOO.toml"
    path.write_text(
        '[defaults]\nquick = true\n\n[[script]]\nproject = "me/*"\ncommand = "python train.py --epochs 1"\n'
        'folder = "src"\ntimeout = 60\n\n[[script]]\nproject = "other"\nscript = "main.py"\n',
        "utf-8",
    )
    zoo = Zoo.read(path)
    (script,) = zoo.scripts_of("me/resnet")
    assert (script.arguments, script.folder, script.quick) == (("--epochs", "1"), "src", True)
    assert [each.project for each in zoo.without_project(["me/resnet"])] == ["other"]
    assert digest(script) != digest(zoo.scripts_of("other")[0])


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ('[[script]]\nproject = "a"\nscript = "t.py"\ntimeot = 3\n', "timeout"),
        ('[[script]]\nproject = "a"\nscript = "../t.py"\n', "script"),
        ('[[script]]\nscript = "t.py"\n', "project"),
        ("[[script]\n", "TOML"),
    ],
)
def test_says_what_is_wrong(tmp_path: Path, text: str, said: str) -> None:
    path = tmp_path / "ZOO.toml"
    path.write_text(text, "utf-8")
    with pytest.raises(UsageMistake, match=said):
        Zoo.read(path)


def test_secrets_are_taken_out() -> None:
    secrets = Secrets.of(({"API_TOKEN": "s3cr3t-value-1", "LANG": "C"},), ("--password", "hunter22hunter"))
    told = redacted("got s3cr3t-value-1 and hunter22hunter from https://me:pw12345@host/x", secrets)
    for secret in ("s3cr3t-value-1", "hunter22hunter", "pw12345"):
        assert secret not in told

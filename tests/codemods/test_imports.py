from __future__ import annotations

import pytest
import toy_rules as toys

from perfmod.codemods.engine import rewrite
from perfmod.codemods.results import Outcome
from perfmod.transforms.finding import Safety

COUNT = "COUNT = len(os.sched_getaffinity(0))"


def run(code: str, *imports: str, definitions: tuple[str, ...] = ()) -> str:
    rule = toys.renaming(imports=imports, definitions=definitions)
    result = rewrite(code.encode(), "a.py", [rule])
    assert result.outcome is Outcome.CHANGED, result
    again = rewrite(result.after, "a.py", [rule])
    assert again.outcome is Outcome.UNCHANGED
    return result.after.decode()


def refusal(code: str, *imports: str, definitions: tuple[str, ...] = ()) -> str:
    """The reason, which is the same where an option would be needed."""
    reasons = set()
    for safety in (Safety.SAFE, Safety.UNSAFE):
        rule = toys.renaming(imports=imports, definitions=definitions, safety=safety)
        result = rewrite(code.encode(), "a.py", [rule])
        assert (result.outcome, result.held_back) == (Outcome.UNCHANGED, ())
        [finding] = result.refused
        assert finding.refused
        assert not finding.edits
        assert not finding.placed
        reasons.add(finding.reason)
    (reason,) = reasons
    return reason


@pytest.mark.parametrize(("before", "after"), [
    # Sorted imports stay sorted.
    ("import math\nimport time\n\nimport torch\n", "import math\nimport os\nimport time\n\nimport torch\n"),
    ("import abc\nimport io\n\nimport torch\n", "import abc\nimport io\nimport os\n\nimport torch\n"),
    ("import sys\nfrom abc import ABC\nimport torch\n", "import os\nimport sys\nfrom abc import ABC\nimport torch\n"),
    # Others get it next to their kind.
    ("import time\nimport abc\n\nimport torch\n", "import time\nimport abc\nimport os\n\nimport torch\n"),
    ("import torch\nimport time\nimport abc\n", "import torch\nimport time\nimport abc\nimport os\n"),
    ("from abc import ABC\n\nimport torch\n", "import os\nfrom abc import ABC\n\nimport torch\n"),
    # No import of the standard library yet: a block of its own.
    ("import torch\n", "import os\n\nimport torch\n"),
    ("'''Doc.'''\nimport torch\n", "'''Doc.'''\nimport os\n\nimport torch\n"),
    ("from __future__ import annotations\n\nimport torch\n",
     "from __future__ import annotations\n\nimport os\n\nimport torch\n"),
    ("#!/bin/sh\n# Licence.\n\nimport torch\n", "#!/bin/sh\n# Licence.\n\nimport os\n\nimport torch\n"),
    # A comment above a group stays its heading.
    ("# standard\nimport time\n\n# others\nimport torch\n",
     "# standard\nimport os\nimport time\n\n# others\nimport torch\n"),
    # Conditional imports do not count, and neither does a longer name.
    ("import torch\nif x:\n    import os\n", "import os\n\nimport torch\nif x:\n    import os\n"),
    ("import time\nimport os.path as p\nimport torch\n", "import time\nimport os.path as p\nimport os\nimport torch\n"),
    ("import math\r\nimport torch\r\n", "import math\r\nimport os\r\nimport torch\r\n"),
])  # fmt: skip
def test_an_import_goes_where_a_person_would_put_it(before: str, after: str) -> None:
    assert run(before + "slow\n", "os") == after + "fast\n"


@pytest.mark.parametrize(("code", "wanted"), [
    ("import os\nimport torch\n", "os"),
    ("import os.path\nimport torch\n", "os"),
    ("import torch, os\n", "os"),
    ("import torch.nn.functional as F\n", "torch.nn.functional as F"),
    ("from torch.nn import functional as F\n", "torch.nn.functional as F"),
    ("import torch.utils.data\n", "torch.utils.data"),
    ("import torch.utils.data\n", "torch"),
    ("import torch.utils.data\n", "torch.utils"),
    ("import torch\n\nx = 1\nimport os\n", "os"),
])  # fmt: skip
def test_what_is_imported_already_is_not_imported_again(code: str, wanted: str) -> None:
    assert run(code + "slow\n", wanted) == code + "fast\n"


def test_an_import_below_the_first_use_does_not_count() -> None:
    code = "import torch\nslow\nimport os\n"
    assert run(code, "os") == "import os\n\nimport torch\nfast\nimport os\n"


def test_third_party_modules_join_the_third_party() -> None:
    code = "import os\n\nimport numpy as np\nimport torch.nn as nn\n\nslow\n"
    assert run(code, "torch", "torch.nn.functional as F") == (
        "import os\n\nimport numpy as np\nimport torch\nimport torch.nn as nn\n"
        "import torch.nn.functional as F\n\nfast\n"
    )


def test_several_modules_make_one_block() -> None:
    assert run("from torch import nn\n\nslow\n", "os", "math") == (
        "import math\nimport os\n\nfrom torch import nn\n\nfast\n"
    )


def test_a_file_without_imports_gets_them_on_top() -> None:
    assert run("# torch\n\nslow\n", "os") == "# torch\n\nimport os\n\nfast\n"
    assert run('"""About torch."""\nslow', "os") == '"""About torch."""\n\nimport os\n\nfast'


def test_a_file_of_comments_has_no_place_for_them() -> None:
    assert "nothing but comments" in refusal("# torch: slow\n", "os")
    assert run("# torch: slow\n") == "# torch: fast\n"


@pytest.mark.parametrize("binding", [
    "os = 1",
    "def os(): pass",
    "from a import os",
    "for os in x: pass",
    "def f(os): pass",
])  # fmt: skip
def test_a_taken_name_is_a_refusal(binding: str) -> None:
    assert refusal(f"import torch\n{binding}\nslow\n", "os") == (
        "os has another meaning on line 2, so import os cannot be added"
    )


def test_the_same_module_imported_in_a_function_does_not_take_the_name() -> None:
    code = "import torch\n\ndef f():\n    import os\n    slow\n"
    assert run(code, "os") == "import os\n\n" + code.replace("slow", "fast")


def test_findings_share_a_definition() -> None:
    code = "import os\nimport torch\n\nx = slow\ny = slow\n"
    assert run(code, "os", definitions=(COUNT,)) == (f"import os\nimport torch\n\n{COUNT}\n\nx = fast\ny = fast\n")


@pytest.mark.parametrize(("before", "after"), [
    ("import torch\n", f"import torch\n\n{COUNT}\n\n"),
    ("import torch\n\n\n", f"import torch\n\n{COUNT}\n\n\n"),
    ("'''Doc.'''\nimport torch\nx = 1\nfrom a import b\n",
     f"'''Doc.'''\nimport torch\nx = 1\nfrom a import b\n\n{COUNT}\n\n"),
    ("import torch\ntry:\n    import a\nexcept ImportError:\n    a = None\n",
     f"import torch\ntry:\n    import a\nexcept ImportError:\n    a = None\n\n{COUNT}\n\n"),
    ("import torch\r\n", f"import torch\r\n\r\n{COUNT}\r\n\r\n"),
    ("# torch\n", f"# torch\n{COUNT}\n\n"),
])  # fmt: skip
def test_a_definition_goes_behind_the_imports(before: str, after: str) -> None:
    assert run(before + "slow", definitions=(COUNT,)) == after + "fast"


def test_a_definition_and_its_import_arrive_together() -> None:
    code = "import torch\n\nslow\n"
    assert run(code, "os", definitions=(COUNT,)) == f"import os\n\nimport torch\n\n{COUNT}\n\nfast\n"


def test_a_definition_stays_above_its_first_use() -> None:
    code = "import torch\nslow\nimport late\n"
    assert run(code, definitions=(COUNT,)) == f"import torch\n\n{COUNT}\n\nfast\nimport late\n"


def test_a_definition_stays_below_the_imports_that_it_reads() -> None:
    code = "import torch\n\n\ndef f(): ...\n\n\nimport os\nslow\n"
    below = "import torch\n\n\ndef f(): ...\n\n\nimport os\n\nN = os.n\n\nfast\n"
    assert run(code, "os", definitions=("N = os.n",)) == below


def test_a_function_is_set_off_by_two_lines() -> None:
    helper = "def helper():\n    return 1"
    code = "import torch\n\nslow\n"
    assert run(code, definitions=(helper,)) == f"import torch\n\n\n{helper}\n\n\nfast\n"


def test_a_definition_that_stands_there_is_used() -> None:
    code = f"import torch\n\n{COUNT}\n\nslow\n"
    assert run(code, definitions=(COUNT,)) == code.replace("slow", "fast")


def test_a_taken_definition_is_a_refusal() -> None:
    assert refusal("import torch\nCOUNT = 4\nslow\n", definitions=(COUNT,)) == (
        "COUNT has another meaning on line 2, so the rewrite's own cannot be added"
    )


def test_two_definitions_of_one_name_do_not_both_arrive() -> None:
    rules = [
        toys.renaming("slow1", triggers=("slow1",), definitions=("N = 1",)),
        toys.renaming("slow2", code="PM902", name="second", triggers=("slow2",), definitions=("N = 2",)),
    ]
    result = rewrite(b"import torch\n\nslow1\nslow2\n", "a.py", rules)
    assert result.after == b"import torch\n\nN = 1\n\nfast\nslow2\n"
    [refused] = result.refused
    assert refused.code == "PM902"

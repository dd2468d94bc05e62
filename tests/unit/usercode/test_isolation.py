"""Which programs are isolated: the table of decision 0204, and the names that count."""

from __future__ import annotations

from pathlib import Path

import pytest

from headgate.common.errors import ConfigError
from headgate.common.settings.config import Config
from headgate.common.settings.loader_options import USER_CODE_APART, Isolation
from headgate.usercode.isolation import taken_names, why_isolated

APART = USER_CODE_APART.key
PATH, LOCKED = "headgate.user-code.path=deps", "headgate.user-code.requirements=locked.txt"


def folder(place: Path, *names: str) -> Path:
    """A program's folder with empty files."""
    for name in names:
        (place / name).parent.mkdir(parents=True, exist_ok=True)
        (place / name).touch()
    return place


@pytest.mark.parametrize(
    ("beside", "shared", "options", "why"),
    [
        (["helpers.py", "kit/__init__.py", "out/part-0"], False, [], None),
        (["helpers.py"], False, [PATH], "brings packages (headgate.user-code.path)"),
        (["helpers.py"], False, [LOCKED], "brings packages (headgate.user-code.requirements)"),
        (["helpers.py"], False, ["headgate.user-code.path="], None),
        (["helpers.py"], True, [], "serves other programs"),
        (["msgspec.py"], False, [], "'msgspec' next to it has the name"),
        (["helpers.py"], False, [f"{APART}=true"], f"{APART} is true"),
        (["msgspec.py"], True, [f"{APART}=false"], None),
        (["helpers.py"], False, [f"{APART}=AUTO"], None),
        (["helpers.py"], False, [f"{APART}=yes", PATH], f"{APART} is true"),
    ],
)
def test_the_table(
    beside: list[str], shared: bool, options: list[str], why: str | None, tmp_path: Path
) -> None:
    """Each row with what is known before the program is loaded."""
    program = folder(tmp_path, *beside) / "job.py"
    found = why_isolated(program, Config().with_command_line(options), shared)
    assert (found is None) if why is None else (found is not None and why in found)


def test_packages_need_isolation(tmp_path: Path) -> None:
    """Both together are refused, with what names the packages."""
    config = Config().with_command_line([f"{APART}=off", PATH])
    with pytest.raises(
        ConfigError, match=r"apart is false.+\(headgate\.user-code\.path\).+leave one of them out"
    ):
        why_isolated(tmp_path / "job.py", config, False)


@pytest.mark.parametrize(
    ("value", "expected"),
    [
        *((word, Isolation.ALWAYS) for word in (True, "true", "Yes", "1", "on")),
        *((word, Isolation.NEVER) for word in (False, "false", "no", "0", "OFF")),
        ("auto", Isolation.AUTO),
    ],
)
def test_every_word_of_before_is_understood(value: object, expected: Isolation) -> None:
    """The option was true or false."""
    assert USER_CODE_APART.kind.parse(value) is expected


def test_another_word_is_refused() -> None:
    """With those that there are."""
    with pytest.raises(ConfigError, match="auto, true or false"):
        Config().with_command_line([f"{APART}=sometimes"])


def test_names_that_are_taken(tmp_path: Path) -> None:
    """Of the standard library, the framework and installed packages; only what Python can import counts."""
    other = folder(tmp_path / "site", "prices/__init__.py", "quotes.py", "plain/data.csv", "spaces/x.py")
    own = folder(
        tmp_path / "code",
        *("prices.py", "quotes/data.csv", "plain/x.py", "spaces/__init__.py", "mine.py", "__init__.py"),
        *("queue.py", "json/data.json", "kazoo/data.csv", "not-a-name.py", "prices-2.py", "__main__.py"),
        *("_core.cpython-311-x86_64-linux-gnu.so", "prices.txt"),
    )
    assert list(taken_names(own, [str(other), str(own)])) == ["kazoo", "prices", "queue", "quotes"]


def test_a_folder_that_cannot_be_listed_takes_no_names(tmp_path: Path) -> None:
    """Whoever may only enter a folder may run a program in it; a link that leads nowhere is no module."""
    assert list(taken_names(tmp_path / "nowhere")) == []
    own = folder(tmp_path / "code", "json.txt")
    (own / "rich").symlink_to(tmp_path / "nowhere")
    assert list(taken_names(own)) == []


def test_a_folder_on_the_path_does_not_clash_with_itself(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As with PYTHONPATH=. in the program's folder, also through a link, and behind an import of a module."""
    own = folder(tmp_path / "code", "taken_name_helpers.py")
    (tmp_path / "link").symlink_to(own)
    monkeypatch.chdir(own)
    for entry in ("", str(own), str(tmp_path / "link")):
        monkeypatch.syspath_prepend(entry)
        assert list(taken_names(own)) == []
    __import__("taken_name_helpers")
    assert list(taken_names(own)) == []
    assert list(taken_names(folder(tmp_path / "other", "taken_name_helpers.py"))) == ["taken_name_helpers"]

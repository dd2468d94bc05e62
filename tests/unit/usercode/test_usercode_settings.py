"""Options of the loader: defaults, texts, lists, names of any case, and what is refused."""

from __future__ import annotations

import pytest

from headgate.common.errors import ConfigError
from headgate.common.settings.loader_options import (
    LOADER_OPTIONS,
    MANDATORY_PATTERNS,
    DependencyLayer,
    NativeModules,
    ResolveOrder,
)
from headgate.usercode.settings import UserCodeSettings


def read(**texts: object) -> UserCodeSettings:
    """Settings by the end of their keys, `_` for `-` and `__` for a dot."""
    keys = {key.replace("__", ".").replace("_", "-"): value for key, value in texts.items()}
    return UserCodeSettings.from_texts({f"classloader.{key}": value for key, value in keys.items()})


def test_defaults() -> None:
    """As the table of options says; each is written as a text that reads back to it."""
    assert UserCodeSettings.from_texts({}) == UserCodeSettings()
    written = {key: option.kind.format(option.default) for key, option in LOADER_OPTIONS.items()}
    assert UserCodeSettings.from_texts(written) == UserCodeSettings()
    assert written["classloader.max-leaked-memory"] == "256mb"
    assert written["classloader.release-timeout"] == "30s"
    assert UserCodeSettings().warnings == ()


def test_every_option_has_its_own_field() -> None:
    """A value other than the default reaches exactly one field."""
    others = {
        "resolve-order": "parent-first",
        "parent-first-patterns.default": "headgate.;pyspark.;py4j.",
        "parent-first-patterns.additional": "yaml.",
        "fail-on-metaspace-oom-error": "false",
        "check-leaked-classloader": "false",
        "native-modules": "process",
        "data-plane-packages": "polars.",
        "dependency-layer": "never",
        "max-leaked-loaders": "7",
        "max-leaked-memory": "7mb",
        "max-layers-per-process": "7",
        "max-process-environments": "7",
        "release-timeout": "7s",
        "jvm.resolve-order": "child-first",
    }
    assert [f"classloader.{key}" for key in others] == list(LOADER_OPTIONS)
    fields = list(UserCodeSettings.__dataclass_fields__)
    for number, (key, text) in enumerate(others.items()):
        read = UserCodeSettings.from_texts({f"classloader.{key}": text})
        assert [name for name in fields if getattr(read, name) != getattr(UserCodeSettings(), name)] == [
            fields[number]
        ]


@pytest.mark.parametrize("text", ["parent-first", "PARENT-FIRST", " Parent_First "])
def test_h1_names_are_read_in_any_case(text: str) -> None:
    """With blanks around, too."""
    assert read(resolve_order=text).resolve_order is ResolveOrder.PARENT_FIRST
    assert read(native_modules=" FAIL").native_modules is NativeModules.FAIL
    assert read(dependency_layer="Always").dependency_layer is DependencyLayer.ALWAYS


@pytest.mark.parametrize(
    ("key", "text", "allowed"),
    [
        ("resolve_order", "sideways", "expected child-first or parent-first"),
        ("native_modules", "thread", "expected auto, process, in-process, parent or fail"),
        ("dependency_layer", "", "expected native, always or never"),
        ("check_leaked_classloader", "maybe", "expected true or false"),
        ("max_leaked_loaders", "-1", "expected a whole number of at least 0"),
        ("max_leaked_memory", "much", "expected a size"),
        ("release_timeout", "-1s", "cannot be negative"),
        ("data_plane_packages", 7, "semicolons in between"),
        ("data_plane_packages", ["numpy.", 7], "semicolons in between"),
        ("data_plane_packages", ["numpy.", "a;b"], "without a semicolon in a list; got 'a;b'"),
    ],
)
def test_h1_other_values_are_refused(key: str, text: object, allowed: str) -> None:
    """With the option's name, what it is, and what is allowed."""
    with pytest.raises(ConfigError, match=allowed) as refused:
        read(**{key: text})
    assert f"classloader.{key.replace('_', '-')} is {text!r}" in str(refused.value)


def test_other_keys_are_refused() -> None:
    """With the nearest one there is."""
    with pytest.raises(ConfigError, match=r"did you mean 'classloader\.resolve-order'\?"):
        read(resolve_ordre="parent-first")
    with pytest.raises(ConfigError, match=r"'parallelism\.default' is none of user code's"):
        UserCodeSettings.from_texts({"parallelism.default": "2"})


def test_h2_h3_lists_have_semicolons_in_between() -> None:
    """Or come as lists; blanks and empty items are dropped, and the additional ones follow the default."""
    settings = read(parent_first_patterns__additional=" attr. ;; yaml.")
    assert settings.patterns_additional == ("attr.", "yaml.")
    assert settings.patterns.patterns[-2:] == ("attr.", "yaml.")
    assert read(parent_first_patterns__additional=["attr. ", ""]).patterns_additional == ("attr.",)


def test_h2_mandatory_patterns_are_put_back() -> None:
    """And the user is told so."""
    settings = read(parent_first_patterns__default="numpy.;pyspark.")
    assert set(MANDATORY_PATTERNS) < set(settings.patterns.patterns)
    (warning,) = settings.warnings
    assert "lacks headgate.; py4j., which stay parent-first" in warning
    assert "parent-first-patterns.additional" in warning


def test_bounds_of_what_may_leak() -> None:
    """Both options together."""
    bounds = read(max_leaked_loaders="1", max_leaked_memory="1mb").bounds
    assert (bounds.loaders, bounds.bytes) == (1, 1 << 20)

"""A job's options for the loading of its code, `classloader.*`, read and checked."""

from __future__ import annotations

import difflib
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final

from headgate.common.errors import ConfigError
from headgate.common.settings import loader_options as loader
from headgate.common.settings.config import Config
from headgate.common.settings.loader_options import DependencyLayer, NativeModules, ResolveOrder
from headgate.usercode.exhaustion import LoaderBounds
from headgate.usercode.resolution import ParentFirst, parent_first


@dataclass(frozen=True, slots=True)
class UserCodeSettings:
    """The values of all `classloader.*` options of a job; :attr:`patterns` are the patterns in force.

    Example:
        >>> settings = UserCodeSettings.from_texts({"classloader.resolve-order": "Parent_First"})
        >>> settings.resolve_order.value, settings.native_modules.value
        ('parent-first', 'auto')
    """

    resolve_order: ResolveOrder = loader.RESOLVE_ORDER.default
    patterns_default: tuple[str, ...] = loader.PATTERNS_DEFAULT.default
    patterns_additional: tuple[str, ...] = loader.PATTERNS_ADDITIONAL.default
    fail_on_exhaustion: bool = loader.FAIL_ON_EXHAUSTION.default
    check_leaked: bool = loader.CHECK_LEAKED.default
    native_modules: NativeModules = loader.NATIVE_MODULES.default
    data_plane: tuple[str, ...] = loader.DATA_PLANE_PACKAGES.default
    dependency_layer: DependencyLayer = loader.DEPENDENCY_LAYER.default
    leaked_loaders_max: int = loader.MAX_LEAKED_LOADERS.default
    leaked_bytes_max: int = loader.MAX_LEAKED_MEMORY.default
    layers_max: int = loader.MAX_LAYERS.default
    environments_max: int = loader.MAX_ENVIRONMENTS.default
    release_timeout_ms: int = loader.RELEASE_TIMEOUT.default
    jvm_resolve_order: ResolveOrder = loader.JVM_RESOLVE_ORDER.default

    @classmethod
    def from_texts(cls, texts: Mapping[str, str]) -> UserCodeSettings:
        """Return settings from texts by option key (`classloader.*`); absent options have their defaults.
        ConfigError for a key that is no such option, or a text that it does not take.
        """
        values = {_FIELDS[_known(key)]: _parsed(key, text) for key, text in texts.items()}
        return cls(**values)

    @classmethod
    def from_config(cls, config: Config) -> UserCodeSettings:
        """Return the `classloader.*` settings in a job's configuration, defaults where it has none."""
        return cls(**{_FIELDS[key]: config.get(option) for key, option in loader.LOADER_OPTIONS.items()})

    @property
    def patterns(self) -> ParentFirst:
        return parent_first(self.patterns_default, self.patterns_additional)

    @property
    def bounds(self) -> LoaderBounds:
        return LoaderBounds(self.leaked_loaders_max, self.leaked_bytes_max)

    @property
    def warnings(self) -> tuple[str, ...]:
        """Sentences for the user about patterns that were left out and are in force all the same."""
        readded = self.patterns.readded
        text = (
            f"{loader.PATTERNS_DEFAULT.key} lacks {'; '.join(readded)}, which stay parent-first all the "
            "same: user code must see the framework's own classes; add patterns by "
            f"{loader.PATTERNS_ADDITIONAL.key}"
        )
        return (text,) if readded else ()


_FIELDS: Final = dict(zip(loader.LOADER_OPTIONS, UserCodeSettings.__dataclass_fields__, strict=True))
"""The field of each key: both are in the same order."""


def _known(key: str) -> str:
    if key in loader.LOADER_OPTIONS:
        return key
    nearest = difflib.get_close_matches(key, loader.LOADER_OPTIONS, n=1, cutoff=0.0)
    raise ConfigError(
        f"option {key!r} is none of user code's; did you mean {nearest[0]!r}? docs/user-code.md lists them"
    )


def _parsed(key: str, text: str) -> Any:
    try:
        return loader.LOADER_OPTIONS[key].kind.parse(text)
    except ValueError as error:
        raise ConfigError(f"option {key} is {text!r}; {error}") from None

"""Builds the native kernel with the package where a compiler is present, and leaves it out where not."""

from __future__ import annotations

import importlib.util
import sysconfig
import tempfile
from pathlib import Path
from typing import Any

from hatchling.builders.hooks.plugin.interface import BuildHookInterface


class NativeKernel(BuildHookInterface):  # type: ignore[type-arg]
    """Called by hatchling for every wheel, editable ones too."""

    PLUGIN_NAME = "custom"

    def initialize(self, version: str, build_data: dict[str, Any]) -> None:
        if self.target_name != "wheel":
            return
        script = Path(self.root) / "src/fadewise/learning/native/build.py"
        spec = importlib.util.spec_from_file_location("build_native", script)
        assert spec is not None
        assert spec.loader is not None
        native = importlib.util.module_from_spec(spec)
        spec.loader.exec_module(native)
        # An editable installation runs from the sources. Any other leaves them as they are: they may be read-only, or
        # an editable installation's too.
        self._folder = tempfile.TemporaryDirectory()
        library = native.LIBRARY if version == "editable" else Path(self._folder.name) / native.LIBRARY.name
        try:
            library.unlink(missing_ok=True)
            native.build(library)
        except (native.NotBuiltError, OSError) as why:
            self.app.display_warning(f"fadewise is installed without its native kernel: {why}")
            return
        build_data["force_include"][str(library)] = "fadewise/learning/native/" + library.name
        # The library speaks C, so any Python will do; the machine has to be of this kind.
        build_data["tag"] = "py3-none-" + sysconfig.get_platform().replace("-", "_").replace(".", "_")
        build_data["pure_python"] = False

    def finalize(self, version: str, build_data: dict[str, Any], artifact_path: str) -> None:
        del version, build_data, artifact_path
        if self.target_name == "wheel":
            self._folder.cleanup()

"""Put bundles, pages and the web runtime together into the folder that is uploaded."""

from __future__ import annotations

import json
import shutil
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import jinja2

from builder.bundle import declarations, hosts, manifest, offline, twins
from builder.bundle.compress import compress_tree
from builder.bundle.headers import PAGE_POLICY, WORKER_NAME, WORKER_POLICY
from builder.bundle.store import FOLDER, Store
from builder.bundle_cache import MANIFEST, REPORT
from builder.plan import Plan
from builder.recipe import Recipe, dump
from builder.tasks import TASKS
from builder.webruntime.vendored import store_runtime, templates, web

if TYPE_CHECKING:
    from builder.bundle import _manifest as types

MODELS = "models"


def write_site(root: Path, plan: Plan, bundles: Sequence[Path]) -> list[types.Manifest]:
    """Fill the empty folder `root`; content first, entry points after, then compressed twins.

    Args:
        root: The site's root.
        plan: Title, host and recipes.
        bundles: A folder per job of the plan, in its order: files and an incomplete manifest.

    Raises:
        HostError: A file breaks a limit of the plan's host.
        ConversionError: A manifest breaks its schema.
    """
    profile = hosts.HOSTS[plan.host]
    runtime = store_runtime(Store(root, profile.shard_bytes))
    for bundle in bundles:
        shutil.copytree(bundle / FOLDER, root / FOLDER, dirs_exist_ok=True)
    # Before the manifests, which name them.
    twins.write(root / FOLDER, profile)
    manifests = [_complete(root, profile, bundle, runtime) for bundle in bundles]
    _copy_assets(root)
    _write_entries(root, plan, manifests, bundles)
    if not profile.compresses:
        compress_tree(root)
    # After the twins: these are read by the host, not by visitors.
    own = {f"{web().assets[WORKER_NAME]}": {"Content-Security-Policy": WORKER_POLICY}}
    for name, content in hosts.host_files(profile, own).items():
        (root / name).write_bytes(content)
    sizes = {
        path.relative_to(root).as_posix(): path.stat().st_size
        for path in sorted(root.rglob("*"))
        if path.is_file()
    }
    hosts.check(profile, sizes)
    return manifests


def _complete(
    root: Path, profile: hosts.HostProfile, bundle: Path, runtime: types.Runtime
) -> types.Manifest:
    content = {**json.loads((bundle / MANIFEST).read_text(encoding="utf-8")), "runtime": runtime}
    if not profile.negotiates:
        content = twins.noted(content, root)
    return manifest.validate(content, f"manifest of {content['id']}")


def _copy_assets(root: Path) -> None:
    for path in [*web().assets.values(), web().module]:
        target = root / path
        target.parent.mkdir(parents=True, exist_ok=True)
        shutil.copyfile(web().root / path, target)


def _write_entries(
    root: Path, plan: Plan, manifests: Sequence[types.Manifest], bundles: Sequence[Path]
) -> None:
    environment = jinja2.Environment(
        loader=jinja2.FileSystemLoader(templates()),
        autoescape=True,
        undefined=jinja2.StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
        keep_trailing_newline=True,
    )

    def render(template: str, target: Path, prefix: str, **context: Any) -> None:
        text = environment.get_template(template).render(
            root=prefix,
            site={
                "title": plan.title,
                # Without a service worker there is nothing to isolate with.
                "isolate": plan.isolate if plan.offline else "never",
                "offline": plan.offline,
                "policy": PAGE_POLICY,
            },
            assets=web().assets,
            integrity=web().integrity,
            **context,
        )
        target.write_text(text, encoding="utf-8")

    for job, entry, bundle in zip(plan.jobs, manifests, bundles, strict=True):
        folder = root / MODELS / entry["id"]
        folder.mkdir(parents=True)
        public = Recipe(
            title=plan.title,
            host=plan.host,
            isolate=plan.isolate,
            offline=plan.offline,
            models=[_without_paths(job.recipe)],
        )
        (folder / "recipe.toml").write_text(dump(public), encoding="utf-8")
        render("model.html.j2", folder / "index.html", "../../", model=_described(entry))
        (folder / declarations.NAME).write_text(declarations.declarations(entry), encoding="utf-8")
        shutil.copyfile(bundle / REPORT, folder / REPORT)
        (folder / MANIFEST).write_bytes(manifest.dumps(entry))
    render("404.html.j2", root / "404.html", "")
    render("gallery.html.j2", root / "index.html", "", models=[_described(m) for m in manifests])
    offline.write(root, plan, manifests)


def _described(entry: types.Manifest) -> Mapping[str, Any]:
    """A manifest with what templates show and would otherwise have to work out."""
    variants = manifest.variants(entry)
    pictures = [s["thumbnail"]["path"] for s in entry["samples"] if "thumbnail" in s]
    return {
        **entry,
        "task_title": TASKS[entry["task"]].title,
        "size": min(variant["size"] for variant in variants),
        "thumbnail": next(iter(pictures), None),
    }


def _without_paths(recipe: Any) -> Any:
    """The recipe as it may be published: local sources by their names, not by their places."""
    changes: dict[str, Any] = {}
    if ":" not in recipe.source:
        changes["source"] = Path(recipe.source).name
    changes["files"] = {
        key: pinned.model_copy(update={"ref": Path(pinned.ref).name})
        if Path(pinned.ref).is_absolute()
        else pinned
        for key, pinned in recipe.files.items()
    }
    if recipe.calibration is not None:
        changes["calibration"] = Path(recipe.calibration).name
    return recipe.model_copy(update=changes)

"""Checks whether the models of a config can be called, as far as this is possible without a
call.
"""

from __future__ import annotations

from ktdeval.calls.base_urls import why_unreachable
from ktdeval.calls.records.cache_admin import CacheAdmin
from ktdeval.errors import KtdevalError
from ktdeval.harness.chat_messages import RemoteModel, as_remote
from ktdeval.registry.plugin_registry import Plugins
from ktdeval.runner.models.model_connection import cache_path, connect
from ktdeval.runner.plans.additional_models import further_models, own_model
from ktdeval.runner.plans.config import RunConfig


def why_not_asked(config: RunConfig, plugins: Plugins) -> str | None:
    """Return, in one line, why a model of a config can't be called from this machine: no key, no
    package, or no server at its address. None if no obstacle is found. No request is sent to a
    provider.

    Raises StoreError if the reply cache can't be read.
    """
    _check_cache(config)
    models = {config.model: as_remote(own_model(config, plugins))}
    for further in further_models(config, plugins):
        models[further.choice.name] = further.remote

    for name, remote in models.items():
        if remote is None:
            continue

        try:
            connect(remote, f"model {name}")
        except KtdevalError as error:
            return error.line

        problem = why_unreachable(remote.endpoint)
        if problem is not None and not _has_replies(config, remote):
            return (
                f"{name}: {remote.endpoint} can't be reached: {problem}; check the address"
                " (base_url) and the network"
            )

    return None


def _check_cache(config: RunConfig) -> None:
    """Raise StoreError if the cache file is not a reply cache, or has a different version."""
    if config.cache == "run":
        return

    path = cache_path(config.cache)
    if path.exists() and path.stat().st_size:
        CacheAdmin(path).close()


def _has_replies(config: RunConfig, model: RemoteModel) -> bool:
    """Return whether the cache contains replies from a model. Such replies need no server."""
    if config.cache == "run":
        return False

    path = cache_path(config.cache)
    if not path.exists():
        return False

    with CacheAdmin(path) as cache:
        held = {(use.provider, use.model) for use in cache.models()}

    return (model.provider, model.name) in held

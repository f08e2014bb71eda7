"""Time limits of a session's model calls, which do not belong to a run's identity."""

from __future__ import annotations

from dataclasses import dataclass, replace

from ktdeval.harness.chat_messages import Model, ModelRequest, Reply
from ktdeval.harness.traits import ModelTraits, model_traits
from ktdeval.runner.plans.config import RunConfig


@dataclass(frozen=True)
class TimedModel:
    """Model whose calls have the time limits of this session, whatever a spec records."""

    inner: Model
    timeout_s: float  #: as in `CallParams`
    first_timeout_s: float | None  #: as in `CallParams`

    @classmethod
    def of(cls, model: Model, config: RunConfig) -> TimedModel:
        """Return a model with the limits of a run's options."""
        return cls(model, config.timeout_s, config.first_timeout_s)

    @property
    def traits(self) -> ModelTraits:
        """Traits of the model."""
        return model_traits(self.inner)

    def reply(self, request: ModelRequest) -> Reply:
        """Answer one request. Raises the same errors as the inner model."""
        params = replace(
            request.params, timeout_s=self.timeout_s, first_timeout_s=self.first_timeout_s
        )
        return self.inner.reply(replace(request, params=params))

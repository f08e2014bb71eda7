"""Environments of the broker on a dataset in memory."""

from __future__ import annotations

from typing import Any

from ktdeval_gym.broker_env import BrokerEnv
from ktdeval_gym.broker_session import TASK, BrokerOptions
from ktdeval_gym.rewards import RewardConfig
from ktdeval_qfinzero.data.dataset import Dataset
from ktdeval_qfinzero.live.tool_use_config import LiveConfig
from ktdeval_qfinzero.live.tool_use_question import LiveSamples
from ktdeval_qfinzero.session.trading_question import session_question


def session_samples(options: BrokerOptions, dataset: Dataset) -> LiveSamples:
    """The question of a session, about a dataset."""
    session = {
        "as_of": options.as_of,
        "stocks": list(options.stocks),
        "days": options.days,
        "cash": options.cash,
    }
    content = {"family": "qfinzero_session", "version": "1", "session": session}
    question = session_question(LiveConfig.load(content, TASK))

    return LiveSamples(TASK, question, dataset)


def broker_env(options: BrokerOptions, dataset: Dataset, **others: Any) -> BrokerEnv:
    """An environment on a dataset."""
    return BrokerEnv(options, session_samples(options, dataset), **others)


def rewarded_by(name: Any) -> RewardConfig:
    """A reward with its usual numbers."""
    return RewardConfig(name)

"""Training of policies: Gymnasium's checks, a planted signal, equal bytes from a seed, NumPy's
decisions those of torch. Skips where the extra `rl` is not installed.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any, get_args

import numpy as np
import pytest

EXTRA = "needs stable-baselines3 and gymnasium: pip install '.[rl]'"
pytest.importorskip("gymnasium", reason=EXTRA)
pytest.importorskip("stable_baselines3", reason=EXTRA)

from gymnasium.utils.env_checker import check_env  # noqa: E402
from planted_signal import share, training_of  # noqa: E402

from gym_worlds import as_bytes  # noqa: E402
from ktdeval.cli.main import main  # noqa: E402
from ktdeval.values import encode_canonical  # noqa: E402
from ktdeval_gym.policies.policy import Algorithm, read_policy  # noqa: E402
from ktdeval_gym.rl.policy_env import PolicyEnv  # noqa: E402
from ktdeval_gym.rl.train import learn, policy_file  # noqa: E402

TASK = "investorbench_msft_history"
DATA = "synthetic_investorbench"


@pytest.mark.filterwarnings("error")
def test_the_environment_is_one_of_gymnasium() -> None:
    env = PolicyEnv(training_of(0.2, 3, (11, 60)))
    check_env(env, skip_render_check=True)
    _, _ = env.reset(seed=1)
    ends = [env.step(env.action_space.sample())[2:4] for _ in range(50)]

    assert ends == [(False, False)] * 49 + [(False, True)]


@pytest.mark.parametrize("algorithm", get_args(Algorithm))
def test_numpy_decides_as_torch_does(algorithm: Algorithm, tmp_path: Path) -> None:
    training = training_of(0.2, 3, (11, 120))
    learner = learn(training, algorithm, 500, 3)
    path = tmp_path / "p.json"
    path.write_text(encode_canonical(policy_file(training, learner)))
    vectors = np.random.default_rng(0).normal(size=(20_000, 11)).astype(np.float32) * 2
    vectors[:, -1] = np.sign(vectors[:, -1])
    values = read_policy(path).values(vectors)
    expected = learner.predict(vectors, deterministic=True)[0]
    first = np.sort(values, axis=1)[:, -1]
    second = np.sort(values, axis=1)[:, -2]
    clear = first - second > 1e-5  # nearer than that the order of a float32 sum decides

    assert clear.mean() > 0.99

    np.testing.assert_array_equal(values.argmax(axis=1)[clear], expected[clear])


@pytest.mark.parametrize("algorithm", ["a2c", "ppo"])
def test_a_planted_signal_is_found_in_10_000_steps(algorithm: Algorithm) -> None:
    assert share(algorithm, noise=0.0, seed=0) >= 0.95


def test_the_same_command_gives_the_same_policy_and_a_run_of_it_verifies(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    for name, seed in (("a", "0"), ("b", "0"), ("c", "1")):
        words = [
            "--task",
            TASK,
            "--data",
            DATA,
            "--train",
            "2020-04-01:2020-09-30",
            "--steps",
            "1000",
            "--seed",
            seed,
        ]
        assert main(["train", "rl", *words, "--output", str(tmp_path / name)]) == 0

    assert "(1,000 steps on 2020-04-01:2020-09-30)" in capsys.readouterr().out

    first, again, other = ((tmp_path / name).read_bytes() for name in "abc")
    assert first == again != other

    run = tmp_path / "run"
    given = [
        "--model",
        "rl/policy",
        "--model-args",
        f"policy={tmp_path / 'a'}",
        "--tasks",
        TASK,
        "--data",
        DATA,
        "--out",
        str(run),
    ]

    assert main([*given, "--limit", "5", "--quiet"]) == 0
    assert main(["card", "verify", str(run / "cards" / f"{TASK}.json")]) == 0


# ---- the public environments under stable-baselines3

NAMES = {
    "ktdeval_gym.envs:ktdeval/Trading-v0": {"windows": "2020-10-02:2020-10-30"},
    "ktdeval_gym.envs:ktdeval/KtdFin-v0": {"windows": "2024-04-01:2024-04-05"},
    "ktdeval_gym.envs:ktdeval/Broker-v0": {"days": 4},
}


@pytest.mark.parametrize("name", NAMES)
def test_ppo_trains_on_each_environment_and_repeats_itself(name: str) -> None:
    import gymnasium
    from stable_baselines3 import PPO
    from stable_baselines3.common.env_checker import check_env as check_for_baselines

    env = gymnasium.make(name, **NAMES[name])
    check_for_baselines(env)
    policy = "MlpPolicy"

    if isinstance(env.observation_space, gymnasium.spaces.Dict):
        policy = "MultiInputPolicy"

    actions = []
    for _ in range(2):
        learner = PPO(policy, env, n_steps=8, batch_size=8, n_epochs=1, seed=3, device="cpu")
        learner.learn(16)
        observation, _ = env.reset()
        actions.append(learner.predict(observation, deterministic=True)[0])

    np.testing.assert_array_equal(actions[0], actions[1])


def test_spawned_baseline_processes_equal_a_single_process() -> None:
    from stable_baselines3.common.env_util import make_vec_env
    from stable_baselines3.common.vec_env import DummyVecEnv, SubprocVecEnv

    name = next(iter(NAMES))
    returned = []

    for kind, options in ((DummyVecEnv, None), (SubprocVecEnv, {"start_method": "spawn"})):
        envs = make_vec_env(
            name, 2, seed=1, env_kwargs=NAMES[name], vec_env_cls=kind, vec_env_kwargs=options
        )
        rng = np.random.default_rng(0)
        steps: list[Any] = [as_bytes(envs.reset())]
        for _ in range(25):  # beyond the end of the episode
            observations, rewards, dones, _ = envs.step(rng.integers(0, 3, (2, 1)))
            rewards = np.asarray(rewards, dtype=np.float32)  # as one process has them
            steps.append((as_bytes(observations), rewards.tobytes(), dones.tobytes()))

        envs.close()
        returned.append(steps)

    assert returned[0] == returned[1]

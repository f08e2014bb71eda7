"""The plugin contract: all that a plugin's own test suite needs to say."""

from ktdeval.testing import check_metric, check_model, check_plugin, check_task


def test_the_plugin_keeps_the_contract() -> None:
    plugins = check_plugin("ktdeval_example")
    check_model(plugins.make_model("example/top_factor", {"names": 3}))
    check_metric(plugins.make_metric("example_win_rate"))
    check_task(plugins.make_task("example_two_weeks"))

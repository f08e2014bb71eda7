"""Parsers of what `ktdeval judge` reads: files of any program, and its own plan and document."""

from __future__ import annotations

from pathlib import Path

from support.fuzzing.fuzz_kit import Parser, in_folder, of_file


def judge_parsers(judgement: bytes) -> dict[str, Parser]:
    """Return the readers of declared decisions, of a plan and of a judgement, such as the one
    given.
    """
    from ktdeval_judge.document import load_judgement
    from ktdeval_judge.plan import PLAN_VERSION, DeclaredPlan, PlannedDay, read_plan
    from ktdeval_judge.readers import ReadOptions, read_declared

    def declared(path: Path) -> object:
        return read_declared(path, ReadOptions())

    day = PlannedDay(day="2024-01-02", rows=(("600001.SH", 0.5),))
    plan = DeclaredPlan(version=PLAN_VERSION, form="weight", others="sell", days=(day,), lots={})
    readers = (
        "ktdeval_judge/readers/__init__.py",
        "ktdeval_judge/readers/forms.py",
        "ktdeval_judge/readers/role_table.py",
        "ktdeval_judge/readers/wide.py",
        "ktdeval_tables/cell_tables.py",
    )
    return {
        "declared table": Parser(
            of_file(declared, "decisions.csv"),
            (
                b"date,code,weight\n2024-01-02,600001.SH,0.5\n",
                b"date,code,side,qty,price\n2024-01-02,600001.SH,buy,100,20\n",
                b",600001.SH,AAPL\n2024-01-02,0.5,\n",
                b"date,nav\n2024-01-02,1.5\n2024-01-03,1.6\n",
            ),
            readers,
        ),
        "declared JSON": Parser(
            of_file(declared, "decisions.json"),
            (b'[{"date":"2024-01-02","symbol":"AAPL","position":10}]',),
            (),
        ),
        "plan of decisions": Parser(
            lambda data: read_plan(data, "declared.json"),
            (plan.encode(),),
            ("ktdeval_judge/plan.py",),
        ),
        "judgement": Parser(
            in_folder("judge.json", load_judgement),
            (judgement,),
            ("ktdeval_judge/document.py",),
        ),
    }

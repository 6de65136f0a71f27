"""
Iceberg's Java tests of REST catalogs and of remote scan planning pass at our REST catalog.

Those that fail or do not apply are named here, each with its reason. A test that is named and passes is a failure too.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from pathlib import Path

import pytest

from tests.engines.iceberg_java.junit import Outcomes

SMALL_PLANS = Path(__file__).with_name("small_plans.py")


@dataclasses.dataclass(frozen=True)
class Fails:
    """Why a test of Iceberg's cannot pass here, and with which words it fails."""

    reason: str
    words: str


KIT_FAILS = {
    "testCatalogWithCustomMetricsReporter": Fails(
        "the client reports no scan whose planning is remote, whatever server plans it", "expected: 1"
    ),
}
KIT_FAILS_BEFORE_SQL = {
    "testLoadTableWithMissingMetadataFile": Fails(
        "the client has the table, and is told that it still stands (304), without a look at the file that is gone",
        "Expecting code to raise a throwable",
    ),
}
KIT_DOES_NOT_APPLY = {
    "createTableInUniqueLocation": "disabled in the kit",
    **dict.fromkeys(("testNamespaceWithDot", "testTableNameWithDot"), "the catalog that writes has no names with dots"),
    **dict.fromkeys(
        ("testNamespaceWithSlash", "testTableNameWithSlash"),
        "the kit leaves out names with slashes: Jetty refuses them",
    ),
    **dict.fromkeys(
        ("testDropNamespaceWithNestedNamespace", "testListNestedNamespaces"), "the kit leaves out nested namespaces"
    ),
    **dict.fromkeys(
        (
            *("createAndDropEmptyNamespace", "listNamespacesWithEmptyNamespace", "listTablesInEmptyNamespace"),
            *("namespacePropertiesOnEmptyNamespace", "tableCreationWithoutNamespace"),
        ),
        "the kit leaves out the empty namespace",
    ),
}
PLANNING_FAILS = {
    **dict.fromkeys(
        ("scanPlanningWithMinRowsRequested[1]", "scanPlanningWithMinRowsRequested[2]"),
        Fails("the rows that a scan asks for are a hint, and every file that can match is planned", "Expected size: 1"),
    ),
    **dict.fromkeys(
        (
            "selectWithNestedFieldsSendsFullyQualifiedNames",
            "useSnapshotSchemaSetCorrectlyForSnapshotAndBranchAndTag",
        ),
        Fails("looks at what the client sends, inside the server of the test's own JVM", "No PlanTableScanRequest"),
    ),
}
PLANNING_ASKS_NOBODY = (
    *("asyncPlanningRejectsInvalidTimeout", "asyncPlanningRespectsConfigurablePollTimeout"),
    *("asyncPlanningSucceedsWithCustomTimeout", "clientExplicitlyRequestsClientSidePlanning"),
    *("clientRequestsClientAndServerReturnsNothing", "fileIOForRemotePlanningIsPropagated"),
    *("planningFailsWithServerError", "planningFailsWithoutServerErrorIsStillSurfaced"),
    *("serverConfigTakesPrecedenceOnMismatch", "serverDoesNotSupportPlanningEndpoint"),
    *("serverSupportsPlanningButNotCancellation", "serverSupportsPlanningButNotPagination"),
    "serverSupportsPlanningSyncOnlyNotAsync",
)
"""Tests of the client alone, at servers that they make themselves in their own JVM."""
PLANNING_DOES_NOT_APPLY = {"remoteScanPlanningWithNonExistentColumn": "disabled: no server prunes by columns yet"}
SPARK_FAILS = {
    **dict.fromkeys(
        ("testExpressionPushdown[1]", "testProjection[1]", "testSelectRewrite[1]"),
        Fails(
            "the rows are right; then it counts the events of scans, which only a server in the same JVM sends",
            "Should create only one scan",
        ),
    ),
    "fileIOIsPropagated[1]": Fails(
        "sets the planning mode beside that of the server's configuration, and expects credentials for each plan",
        "Multiple entries with same key: scan-planning-mode",
    ),
}


@pytest.mark.parametrize("kind", ["rest", "sql"])
def test_compatibility_kit_reads_through_us(routed, junit, kind):
    router, uri = routed(kind)
    outcomes = junit(uri).run(
        "org.apache.iceberg.rest.RESTCompatibilityKitCatalogTests", settings={"rck.local": "false"}
    )
    fails = KIT_FAILS if kind == "rest" else {**KIT_FAILS, **KIT_FAILS_BEFORE_SQL}
    check(outcomes, fails, KIT_DOES_NOT_APPLY)
    assert len(outcomes.passed) > 85
    assert {"GET namespace 200", "GET tables 200", "GET table 200", "HEAD table 404", "POST plan 200"} <= set(
        router.answered
    )


def test_remote_planning_of_java_is_right_in_asynchronous_parts(routed, junit, catalog_under_test):
    router, uri = routed("rest", [str(SMALL_PLANS)])
    java = junit(uri)
    outcomes = dataclasses.replace(java, classpath=[catalog_under_test, *java.classpath]).run(
        "org.apache.iceberg.rest.TestRESTScanPlanning",
        left_out=PLANNING_ASKS_NOBODY,
        settings={"junit.jupiter.extensions.autodetection.enabled": "true"},
    )
    check(outcomes, PLANNING_FAILS, PLANNING_DOES_NOT_APPLY)
    assert len(outcomes.passed) > 40
    assert {"POST plan 200", "GET plan 200", "DELETE plan 204", "POST tasks 200"} <= set(router.answered)


def test_remote_planning_of_spark_is_right(routed, junit):
    router, uri = routed("rest")
    outcomes = junit(uri, with_spark=True).run("org.apache.iceberg.spark.source.TestRemoteScanPlanning")
    check(outcomes, SPARK_FAILS, {})
    assert len(outcomes.passed) > 20
    assert router.answered["POST plan 200"] > 20


def check(outcomes: Outcomes, fails: Mapping[str, Fails], does_not_apply: Mapping[str, str]) -> None:
    """Raise unless exactly the named tests fail, as told, and exactly the others that are named were skipped."""
    assert {name: says for name, says in outcomes.failed.items() if name not in fails} == {}
    assert {name for name in fails if name not in outcomes.failed} == set()
    assert {n: outcomes.failed[n] for n, why in fails.items() if why.words not in outcomes.failed[n]} == {}
    assert outcomes.skipped == does_not_apply.keys()

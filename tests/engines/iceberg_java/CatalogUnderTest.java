package org.apache.iceberg.rest;

import org.junit.jupiter.api.extension.AfterTestExecutionCallback;
import org.junit.jupiter.api.extension.BeforeTestExecutionCallback;
import org.junit.jupiter.api.extension.ExtensionContext;

/**
 * Gives each test of TestBaseWithRESTServer a catalog at the system property "uri", in place of the one at the server
 * that the test starts in its own JVM.
 */
public class CatalogUnderTest implements BeforeTestExecutionCallback, AfterTestExecutionCallback {
  @Override
  public void beforeTestExecution(ExtensionContext context) {
    TestBaseWithRESTServer test = (TestBaseWithRESTServer) context.getRequiredTestInstance();
    test.restCatalog = RCKUtils.initCatalogClient();
    RCKUtils.purgeCatalogTestEntries(test.restCatalog);
  }

  @Override
  public void afterTestExecution(ExtensionContext context) {
    TestBaseWithRESTServer test = (TestBaseWithRESTServer) context.getRequiredTestInstance();
    RCKUtils.purgeCatalogTestEntries(test.restCatalog);
  }
}

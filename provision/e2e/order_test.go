//go:build unix

package e2e_test

import "testing"

// onHosts runs a test on real hosts in parallel with others.
func onHosts(t *testing.T, test func(*testing.T)) {
	t.Helper()
	if testing.Short() {
		t.Skip("it deploys real hosts")
	}
	t.Parallel()
	test(t)
}

// These are in the order of the time that they take, the longest last. Of parallel tests, go
// test mostly begins with the last ones in the source: the longest should begin early, so that
// none of them runs alone at the end.
func TestSystemNewcomer(t *testing.T)           { onHosts(t, tryNewcomer) }
func TestSystemSecondProgram(t *testing.T)      { onHosts(t, trySecondProgram) }
func TestSystemAptHeld(t *testing.T)            { onHosts(t, tryAptHeld) }
func TestSystemCrashes(t *testing.T)            { onHosts(t, tryCrashes) }
func TestSystemRefusedSettings(t *testing.T)    { onHosts(t, tryRefusedSettings) }
func TestSystemFiltersInMariaDB(t *testing.T)   { onHosts(t, tryFiltersInMariaDB) }
func TestSystemBrowser(t *testing.T)            { onHosts(t, tryBrowser) }
func TestSystemDownloader(t *testing.T)         { onHosts(t, tryDownloader) }
func TestSystemReleases(t *testing.T)           { onHosts(t, tryReleases) }
func TestSystemDistantHosts(t *testing.T)       { onHosts(t, tryDistantHosts) }
func TestSystemFailingHosts(t *testing.T)       { onHosts(t, tryFailingHosts) }
func TestSystemFromNothing(t *testing.T)        { onHosts(t, tryFromNothing) }
func TestSystemWorkers(t *testing.T)            { onHosts(t, tryWorkers) }
func TestSystemSiteWithoutNetwork(t *testing.T) { onHosts(t, trySiteWithoutNetwork) }
func TestSystemPackages(t *testing.T)           { onHosts(t, tryPackages) }
func TestSystemUnconfirmed(t *testing.T)        { onHosts(t, tryUnconfirmed) }
func TestSystemUnderLoad(t *testing.T)          { onHosts(t, tryUnderLoad) }
func TestSystemBrokenOff(t *testing.T)          { onHosts(t, tryBrokenOff) }
func TestSystemBrokenReleases(t *testing.T)     { onHosts(t, tryBrokenReleases) }
func TestSystemByFabricNames(t *testing.T)      { onHosts(t, tryByFabricNames) }

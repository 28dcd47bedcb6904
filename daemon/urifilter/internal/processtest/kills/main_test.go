// Package kills_test kills daemons, Redis and clients under load, fills disks, and finds
// every item that was acknowledged.
package kills_test

import (
	"testing"

	"github.com/cr-clawer/urifilter/daemon/urifilter/internal/processtest"
)

func TestMain(m *testing.M) { processtest.Main(m) }

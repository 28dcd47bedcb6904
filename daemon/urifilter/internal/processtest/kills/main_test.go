// Package kills_test kills daemons, Redis and clients under load, fills disks, and then looks for
// every acknowledged item.
package kills_test

import (
	"testing"

	"github.com/cr-clawer/urifilter/daemon/urifilter/internal/processtest"
)

func TestMain(m *testing.M) { processtest.Main(m) }

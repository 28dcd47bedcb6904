// Package service_test starts, reloads and stops the daemon, and hands it its sockets, as a
// service manager does.
package service_test

import (
	"testing"

	"github.com/cr-clawer/urifilter/daemon/urifilter/internal/processtest"
)

func TestMain(m *testing.M) { processtest.Main(m) }

// Package service_test has the daemon started, reloaded, handed its sockets and stopped as a
// service manager does it.
package service_test

import (
	"testing"

	"github.com/cr-clawer/urifilter/daemon/urifilter/internal/processtest"
)

func TestMain(m *testing.M) { processtest.Main(m) }

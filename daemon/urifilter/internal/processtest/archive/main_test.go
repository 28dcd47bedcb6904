// Package archive_test copies bit-maps between daemons, commands and a real archive, each of
// which may be gone or killed.
package archive_test

import (
	"testing"

	"github.com/cr-clawer/urifilter/daemon/urifilter/internal/processtest"
)

func TestMain(m *testing.M) { processtest.Main(m) }

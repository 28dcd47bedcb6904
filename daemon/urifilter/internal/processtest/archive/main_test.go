// Package archive_test has bit-maps copied between daemons, commands and a real archive, of
// which each may be gone or killed.
package archive_test

import (
	"testing"

	"github.com/cr-clawer/urifilter/daemon/urifilter/internal/processtest"
)

func TestMain(m *testing.M) { processtest.Main(m) }

package e2e_test

import (
	"os"
	"testing"

	"github.com/cr-clawer/urifilter/provision/e2e"
)

func TestMain(m *testing.M) { os.Exit(e2e.Main(m)) }

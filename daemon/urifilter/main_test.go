package main

import (
	"testing"

	"github.com/cr-clawer/urifilter/daemon/urifilter/internal/processtest"
)

func TestMain(m *testing.M) { processtest.Main(m) }

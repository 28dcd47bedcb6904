package http

import (
	"testing"
	"time"
)

// A caller that comes back after a while waits for the full time.
func TestAWaitEndsByItself(t *testing.T) {
	var w waits
	of, now := wait{"writeback", "uri", "admin"}, time.Now()
	for i, want := range []bool{true, false, true} {
		if _, log := w.note(of, true, now.Add(time.Duration(i*i)*waitOver/2)); log != want {
			t.Errorf("call %d: logged %v", i, log)
		}
	}
}

package clock

import (
	"testing"
	"testing/synctest"
	"time"
)

func TestClock(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		began := time.Now()
		out := make(chan time.Duration, 2)
		c := Start(10*time.Second, func() { out <- time.Since(began) })
		time.Sleep(4 * time.Second)
		first := c.Pause()
		time.Sleep(time.Hour)
		second := c.Pause() // overlaps
		first()
		first() // no second end of the same pause
		time.Sleep(time.Hour)
		second()
		if got, want := <-out, 2*time.Hour+10*time.Second; got != want {
			t.Errorf("ran out after %s, want %s", got, want)
		}
		c.Pause()() // after its end
		time.Sleep(time.Hour)
		if len(out) > 0 {
			t.Error("ran out twice")
		}
		stopped := Start(time.Second, func() { t.Error("ran out after its end") })
		pause := stopped.Pause()
		stopped.Stop()
		pause()
		time.Sleep(time.Hour)
	})
}

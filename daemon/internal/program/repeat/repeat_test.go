package repeat_test

import (
	"context"
	"testing"
	"testing/synctest"
	"time"

	"github.com/cr-clawer/urifilter/daemon/internal/program/repeat"
)

func TestEveryYieldsAfterEachIntervalUntilTheContextEnds(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ctx, cancel := context.WithTimeout(t.Context(), 35*time.Second)
		defer cancel()
		begin := time.Now()
		var got []time.Duration
		for now := range repeat.Every(ctx, 10*time.Second) {
			got = append(got, now.Sub(begin))
		}
		if len(got) != 3 || got[0] != 10*time.Second || got[2] != 30*time.Second || time.Since(begin) != 35*time.Second {
			t.Errorf("yielded after %v, ended after %v", got, time.Since(begin))
		}
	})
}

func TestEveryCanBeLeft(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		for range repeat.Every(t.Context(), time.Second) {
			break
		}
	})
}

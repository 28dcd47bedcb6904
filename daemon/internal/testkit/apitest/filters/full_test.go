package filters_test

import (
	"context"
	"fmt"
	"log/slog"
	"strings"
	"testing"
	"time"

	"github.com/cr-clawer/urifilter/configs"
	"github.com/cr-clawer/urifilter/daemon/internal/filter/engine"
	api "github.com/cr-clawer/urifilter/daemon/internal/front/http"
	"github.com/cr-clawer/urifilter/daemon/internal/front/problem"
	"github.com/cr-clawer/urifilter/daemon/internal/testkit/apitest"
)

// A token that may only filter cannot fill the machine's memory with items that almost never
// expire: at the bound of its filter new items are refused, and seen ones still answered.
func TestNoRaceATimingFilterHasABound(t *testing.T) {
	const bound = 8 << 20
	mem := &apitest.MemStore{}
	e, err := engine.Open(context.Background(), mem, engine.Settings{
		Filters:     []engine.Spec{{ID: 7, Name: "news", Kind: "timing", Params: configs.Timing{Expire: time.Hour}}},
		FilterBytes: bound, Log: slog.New(slog.DiscardHandler),
	})
	if err != nil {
		t.Fatal(err)
	}
	r := apitest.Over(t, mem, func(o *api.Options) { o.Engine = e })
	batch := func(n int) string {
		items := make([]string, 10_000)
		for i := range items {
			items[i] = fmt.Sprintf("%d", n*len(items)+i)
		}
		return `{"filter_typeid":"news","expire":315360000,"uri_list":[` + strings.Join(items, ",") + `]}`
	}
	taken := 0
	for ; ; taken++ {
		a := r.Post("/api/v1/filter", batch(taken))
		if a.Status == 507 {
			if p := a.Problem(t); p.ErrorCode != problem.FilterFull || !strings.Contains(p.Detail, "limits.filter_bytes") {
				t.Errorf("got %s", a.Body)
			}
			break
		}
		if a.Status != 200 {
			t.Fatalf("batch %d: %d %s", taken, a.Status, a.Body)
		}
		if taken > 2*bound/26/10_000 {
			t.Fatalf("%d items were taken", taken*10_000)
		}
	}
	if least := bound / 30 / 10_000; taken < least {
		t.Errorf("%d batches were taken, want %d and more", taken, least)
	}
	f, err := e.Lookup("news")
	if err != nil {
		t.Fatal(err)
	}
	st := f.Stats()
	if st.Items != uint64(taken*10_000) || st.Bytes > bound*3/2 {
		t.Errorf("%d items take %d bytes, want those of %d batches", st.Items, st.Bytes, taken)
	}
	if got := f.Set.(engine.Timed).Memory(); got != st.Bytes {
		t.Errorf("Memory is %d, and Stats says %d", got, st.Bytes)
	}
	if a := r.Post("/api/v1/filter", batch(0)); a.Status != 200 || !strings.Contains(a.Body, `"uri_list":[],"total":10000,"duplicates":10000`) {
		t.Errorf("a batch that was seen: %d %.200s", a.Status, a.Body)
	}
	if a := r.Post("/api/v1/check", strings.Replace(batch(taken), `"expire":315360000,`, "", 1)); a.Status != 200 || strings.Contains(a.Body, "false") {
		t.Errorf("something of the batch that was refused is remembered: %d %.200s", a.Status, a.Body)
	}
	mem.Pass(20 * 365 * 24 * time.Hour)
	f.Stats() // sweeps
	if a := r.Post("/api/v1/filter", batch(taken)); a.Status != 200 {
		t.Errorf("after all have expired: %d %s", a.Status, a.Body)
	}
}

package batch_test

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/cr-clawer/urifilter/configs"
	"github.com/cr-clawer/urifilter/daemon/internal/filter/batch"
	"github.com/cr-clawer/urifilter/daemon/internal/filter/engine"
	"github.com/cr-clawer/urifilter/daemon/internal/filter/items"
	"github.com/cr-clawer/urifilter/daemon/internal/store/embedded"
)

var (
	uri   = engine.Spec{ID: 1, Name: "uri", Kind: "bloom", Params: configs.Bloom{Capacity: 100_000, ErrorRate: 1e-4, OnFull: "warn"}}
	news  = engine.Spec{ID: 2, Name: "news", Kind: "timing", Params: configs.Timing{Expire: time.Hour}}
	calls = engine.Spec{ID: 3, Name: "calls", Kind: "timing", Params: configs.Timing{}} // each call must give an expire time
)

// counted is the sum of what a Judge has reported.
type counted struct{ batches, fresh, all, failed int }

func open(t *testing.T) (*batch.Judge, *[2]counted) {
	t.Helper()
	log := slog.New(slog.DiscardHandler)
	store, err := embedded.Open(embedded.Options{Dir: t.TempDir(), Durability: "none", Log: log})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = store.Close() })
	e, err := engine.Open(t.Context(), store, engine.Settings{Filters: []engine.Spec{uri, news, calls}, Log: log})
	if err != nil {
		t.Fatal(err)
	}
	told := &[2]counted{}
	return &batch.Judge{Engine: e, Observe: func(op batch.Op, _ *engine.Filter, _ time.Duration, n batch.Counts, err error) {
		c := &told[op]
		c.batches, c.fresh, c.all = c.batches+1, c.fresh+n.New, c.all+n.All
		if err != nil {
			c.failed++
		}
	}}, told
}

func list(t testing.TB, texts ...string) *items.List {
	t.Helper()
	var r items.Request
	body := fmt.Sprintf(`{"filter":"x","items":["%s"]}`, strings.Join(texts, `","`))
	if err := r.Decode([]byte(body), items.Limits{}); err != nil {
		t.Fatal(err)
	}
	return &r.List
}

// judged begins a call and judges one batch.
func judged(t *testing.T, j *batch.Judge, op batch.Op, ref string, expire batch.Expire, texts ...string) []bool {
	t.Helper()
	var b batch.Batch
	if err := j.Begin(context.Background(), &b, op, ref, expire); err != nil {
		t.Fatal(err)
	}
	if err := j.Apply(t.Context(), &b, list(t, texts...)); err != nil {
		t.Fatal(err)
	}
	marked := 0
	for _, is := range b.IsNew {
		if is {
			marked++
		}
	}
	if b.New != marked {
		t.Errorf("%d new, %d marked", b.New, marked)
	}
	return b.IsNew
}

func TestJudge(t *testing.T) {
	j, told := open(t)
	none := batch.Expire{}
	for _, step := range []struct {
		op     batch.Op
		ref    string
		expire batch.Expire
		texts  []string
		want   []bool
	}{
		{batch.Check, "uri", none, []string{"a", "b", "a"}, []bool{true, true, true}},
		{batch.Add, "1", none, []string{"a", "b", "a"}, []bool{true, true, false}},
		{batch.Check, "uri", none, []string{"a", "c"}, []bool{false, true}},
		{batch.Add, "news", none, []string{"a"}, []bool{true}},
		{batch.Add, "news", batch.Expire{Seconds: 5, Given: true}, []string{"a", "b"}, []bool{false, true}},
		{batch.Check, "calls", none, []string{"a"}, []bool{true}}, // remembers nothing, so it needs no expire time
		{batch.Add, "calls", batch.Expire{Seconds: 5, Given: true}, []string{"a"}, []bool{true}},
	} {
		if got := judged(t, j, step.op, step.ref, step.expire, step.texts...); !slices.Equal(got, step.want) {
			t.Errorf("%+v: got %v", step, got)
		}
	}
	if want := [2]counted{{batches: 4, fresh: 5, all: 7}, {batches: 3, fresh: 5, all: 6}}; *told != want {
		t.Errorf("told of %+v, want %+v", *told, want)
	}
}

func TestExpireThatCannotBe(t *testing.T) {
	j, _ := open(t)
	for ref, test := range map[string]struct {
		seconds float64
		given   bool
		want    batch.ExpireReason
	}{
		"uri":   {5, true, batch.ExpireNotSupported},
		"calls": {0, false, batch.ExpireMissing},
		"news":  {-1, true, batch.ExpireInvalid},
	} {
		var wrong *batch.ExpireError
		err := j.Begin(context.Background(), &batch.Batch{}, batch.Add, ref, batch.Expire{Seconds: test.seconds, Given: test.given})
		if !errors.As(err, &wrong) || wrong.Reason != test.want {
			t.Errorf("%s: %v", ref, err)
		}
	}
	var unknown *engine.UnknownFilterError
	if err := j.Begin(context.Background(), &batch.Batch{}, batch.Add, "none", batch.Expire{Seconds: -1, Given: true}); !errors.As(err, &unknown) {
		t.Errorf("an unknown filter: %v", err)
	}
}

// A call of many batches continues in a filter that is cleared, and fails in one that is
// dropped, even if another of the same name is created.
func TestFilterChangesUnderACall(t *testing.T) {
	j, _ := open(t)
	var b batch.Batch
	if err := j.Begin(context.Background(), &b, batch.Add, "uri", batch.Expire{}); err != nil {
		t.Fatal(err)
	}
	add := func() (int, error) { err := j.Apply(t.Context(), &b, list(t, "a")); return b.New, err }
	if n, err := add(); n != 1 || err != nil {
		t.Fatal(n, err)
	}
	if _, err := j.Engine.Clear(t.Context(), "uri"); err != nil {
		t.Fatal(err)
	}
	if n, err := add(); n != 1 || err != nil { // b still has the filter from before the clear
		t.Errorf("after a clear: %d, %v, want the item as new", n, err)
	}
	if err := j.Resume(&b); err != nil {
		t.Error(err)
	}
	if err := j.Engine.Drop(t.Context(), "uri"); err != nil {
		t.Fatal(err)
	}
	var unknown *engine.UnknownFilterError
	if err := j.Resume(&b); !errors.As(err, &unknown) {
		t.Errorf("resumed after a drop: %v", err)
	}
	if _, err := add(); !errors.As(err, &unknown) {
		t.Errorf("after a drop: %v", err)
	}
	if _, _, err := j.Engine.Create(t.Context(), uri); err != nil {
		t.Fatal(err)
	}
	var dropped *batch.DroppedError
	if err := j.Resume(&b); !errors.As(err, &dropped) {
		t.Errorf("resumed in one that was re-created: %v", err)
	}
	if _, err := add(); !errors.As(err, &dropped) {
		t.Errorf("in one that was re-created: %v", err)
	}
}

// A batch that is reused allocates nothing for its items.
func TestJudgeAllocatesNothingPerItem(t *testing.T) {
	j, _ := open(t)
	var texts []string
	for i := range 1000 {
		texts = append(texts, fmt.Sprint("https://example.com/", i))
	}
	l := list(t, texts...)
	var b batch.Batch
	if got := testing.AllocsPerRun(20, func() {
		if err := j.Begin(context.Background(), &b, batch.Add, "uri", batch.Expire{}); err != nil {
			t.Fatal(err)
		}
		if err := j.Apply(t.Context(), &b, l); err != nil {
			t.Fatal(err)
		}
		b.End()
	}); got > 10 {
		t.Errorf("%v allocations for 1,000 items", got)
	}
}

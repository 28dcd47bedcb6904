package problem

import (
	"errors"
	"fmt"
	"os"
	"regexp"
	"strings"
	"testing"

	"github.com/cr-clawer/urifilter/client"
	"github.com/cr-clawer/urifilter/daemon/internal/archive"
	"github.com/cr-clawer/urifilter/daemon/internal/archive/backup"
	"github.com/cr-clawer/urifilter/daemon/internal/filter/batch"
	"github.com/cr-clawer/urifilter/daemon/internal/filter/engine"
	"github.com/cr-clawer/urifilter/daemon/internal/filter/items"
	"github.com/cr-clawer/urifilter/daemon/internal/program/problemdetail"
)

func TestTable(t *testing.T) {
	seen := map[string]bool{}
	for _, e := range Table() {
		if seen[e.Code] {
			t.Errorf("%s appears twice", e.Code)
		}
		seen[e.Code] = true
		if !regexp.MustCompile(`^[a-z][a-z0-9_]+$`).MatchString(e.Code) || !regexp.MustCompile(`^[A-Z]+$`).MatchString(e.RESP) || e.Exit != 1 {
			t.Errorf("%+v", e)
		}
		// A RESP client retries the same errors as ours, and no others.
		again, _ := client.Repeatable(&client.Error{Problem: client.Problem{Status: e.Status, ErrorCode: e.Code}})
		inDoubt := client.InDoubt(&client.Error{Problem: client.Problem{Status: e.Status, ErrorCode: e.Code}})
		if want := again && !inDoubt; (e.RESP == "TRYAGAIN") != want {
			t.Errorf("%s: %s, and the Go client repeats it: %v", e.Code, e.RESP, want)
		}
	}
	if len(ByCode()) != len(seen) {
		t.Errorf("%d codes, %d entries", len(ByCode()), len(seen))
	}
}

// What means the same in all programs is said as there.
func TestCommonCodes(t *testing.T) {
	for code, m := range problemdetail.Common("daemon") {
		if e := ByCode()[code]; e.Status != m.Status || e.Title != m.Title {
			t.Errorf("%s: %+v, want %+v", code, e, m)
		}
	}
}

// The Python package gives advice only for existing codes.
func TestPythonKnowsNoOtherCodes(t *testing.T) {
	text, err := os.ReadFile("../../../../python/src/crawlerfilter/errors.py")
	if err != nil {
		t.Fatal(err)
	}
	found := regexp.MustCompile(`(?m)^    "([a-z_]+)":`).FindAllStringSubmatch(string(text), -1)
	if len(found) < 5 {
		t.Fatalf("only %d codes found: has the file another form?", len(found))
	}
	for _, code := range found {
		if _, ok := ByCode()[code[1]]; !ok && code[1] != "unreachable" { // this one is not an answer of a daemon
			t.Errorf("%s is no code", code[1])
		}
	}
}

func TestOf(t *testing.T) {
	cause := errors.New("disk\non fire")
	for _, c := range []struct {
		err        error
		code, resp string
	}{
		{&engine.UnknownFilterError{Ref: "x", Known: []string{"uri"}}, UnknownFilter, `ERR unknown_filter: filter "x": unknown`},
		{&batch.DroppedError{Filter: "x"}, UnknownFilter, "ERR unknown_filter: filter x was dropped while the request ran"},
		{&engine.RestoringError{Filter: "x"}, FilterRestoring, "TRYAGAIN filter_restoring: filter x: is being restored from the archive"},
		{&engine.RestoringError{Filter: "x", Cause: cause}, ArchiveUnavailable, "TRYAGAIN archive_unavailable: filter x: waits for the archive"},
		{&engine.QuarantinedError{Quarantined: engine.Quarantined{Name: "x", Cause: cause}}, FilterQuarantined,
			"ERR filter_quarantined: filter x: the daemon's log names what is damaged and the ways out"},
		{&engine.SpecError{Field: "capacity", Msg: "0: want 1"}, InvalidFilter, "ERR invalid_filter: capacity: 0: want 1"},
		{&engine.KindError{Filter: "x", Kind: "sieve", Lacks: engine.ErrNoBitMap}, BitMapNotSupported, "ERR bitmap_not_supported: filter x: is of the kind sieve, which has no bit-map"},
		{&engine.KindError{Filter: "x", Kind: "sieve", Lacks: engine.ErrForgetsNone}, ForgetNotSupported, "ERR forget_not_supported: filter x: is of the kind sieve, which cannot forget single items " +
			"(a bit of a bit-map may stand for many of them); filters of the kinds exact and timing can, and any filter can be cleared as a whole"},
		{&engine.KindError{Filter: "x", Kind: "sieve", Lacks: engine.ErrReservesNone}, ReserveNotSupported, "ERR reserve_not_supported: filter x: is of the kind sieve, which cannot reserve items; " +
			"filters of the kinds exact and timing can (a bit of a bit-map may stand for many items, and cannot be given back)"},
		{&engine.KindError{Filter: "x", Kind: "sieve", Lacks: engine.ErrComparesNone}, NearNotSupported,
			"ERR near_not_supported: filter x: is of the kind sieve, which cannot tell which texts are near each other; filters of the kind simhash can"},
		{&engine.KindError{Filter: "x", Kind: "sieve", Lacks: engine.ErrListsNone}, DigestsNotSupported,
			"ERR digests_not_supported: filter x: is of the kind sieve, which has no digests that can be listed where it is kept; filters of the kinds exact and timing have, in the store embedded"},
		{&engine.UnlikeError{Filter: "x", Reason: "is another"}, FiltersDiffer, "ERR filters_differ: filter x: is another"},
		{&batch.ExpireError{Reason: batch.ExpireMissing, Msg: "none"}, ExpireMissing, "ERR expire_missing: none"},
		{&batch.ExpireError{Reason: batch.ExpireInvalid, Msg: "-1"}, items.ExpireInvalid, "ERR expire_invalid: -1"},
		{&batch.ExpireError{Reason: batch.ExpireNotSupported, Msg: "no"}, ExpireNotSupported, "ERR expire_not_supported: no"},
		{&items.Error{Code: items.NullItem, Index: 3, Offset: 9, Detail: "null"}, items.NullItem, "ERR null_item: null"},
		{engine.ErrConflict, FilterConflict, "ERR filter_conflict: filter exists with other parameters"},
		{engine.ErrFull, FilterFull, "ERR filter_full: filter is full"},
		{fmt.Errorf("%w: %w", engine.ErrInDoubt, engine.ErrUnavailable), OutcomeUnknown,
			"ERR outcome_unknown: The store failed in the middle of the batch; some of its items may have been remembered."},
		{fmt.Errorf("%w: %w", engine.ErrUnavailable, cause), StoreUnavailable,
			"TRYAGAIN store_unavailable: The store cannot be reached, or is being resynced; nothing was remembered."},
		{fmt.Errorf("%w: %w", engine.ErrNoSpace, cause), NoStorage, "OOM insufficient_storage: The store has no space left; nothing was changed."},
		{fmt.Errorf("%w: %w", engine.ErrFailed, cause), StoreFailed,
			"MISCONF store_failed: The store has failed and accepts nothing until the daemon is restarted."},
		{&archive.OvertakenError{Filter: "x"}, LeaseHeld, "ERR lease_held: filter x: another writeback took over; nothing was changed hint: write back again"},
		{backup.ErrStopping, NotReady, "TRYAGAIN not_ready: " + backup.ErrStopping.Error()},
		{fmt.Errorf("%w: %w", archive.ErrUnreachable, cause), ArchiveUnavailable, "TRYAGAIN archive_unavailable: The archive cannot be reached at present."},
		{cause, Internal, "ERR internal: " + ByCode()[Internal].Title},
		{&Error{Code: "new_word"}, "new_word", "ERR internal: " + ByCode()[Internal].Title},
		{&Error{Code: Unauthorized, Cause: cause}, Unauthorized, "NOAUTH unauthorized: A valid token is required."},
	} {
		for _, err := range []error{c.err, fmt.Errorf("somewhere: %w", c.err)} {
			p := Of(err)
			if p.Code != c.code {
				t.Errorf("%v: %s, want %s", err, p.Code, c.code)
			}
			if err == c.err && RESP(p) != c.resp {
				t.Errorf("%v: RESP\ngot  %s\nwant %s", err, RESP(p), c.resp)
			}
		}
	}
	p := Of(&items.Error{Code: items.NullItem, Index: 3, Offset: 9})
	if p.Index == nil || *p.Index != 3 || p.Offset == nil || *p.Offset != 9 {
		t.Errorf("where: %+v", p)
	}
	if p := Of(&items.Error{Code: items.MissingField, Index: -1, Offset: -1}); p.Index != nil || p.Offset != nil {
		t.Errorf("nowhere: %+v", p)
	}
	if p := Of(fmt.Errorf("%w: %w", engine.ErrFailed, cause)); !errors.Is(p, cause) || !strings.Contains(p.Error(), "on fire") {
		t.Errorf("the cause is for the log: %v", p)
	}
}

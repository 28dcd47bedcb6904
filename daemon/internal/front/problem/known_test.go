package problem

import (
	"fmt"
	"strings"
	"testing"

	"github.com/cr-clawer/urifilter/daemon/internal/filter/engine"
)

// An error about an unknown filter names a few of those that there are, and how many there are.
func TestAnUnknownFilterNamesAFewOthers(t *testing.T) {
	unknown := &engine.UnknownFilterError{Ref: "none"}
	for i := range 2000 {
		unknown.Known = append(unknown.Known, fmt.Sprintf("filter-%04d", i))
	}
	if p := Of(unknown); len(p.Known) != 20 || p.Known[0] != "filter-0000" || !strings.Contains(p.Detail, "the first 20 of 2000") {
		t.Errorf("%d are named: %s", len(p.Known), p.Detail)
	}
	unknown.Known = unknown.Known[:20]
	if p := Of(unknown); len(p.Known) != 20 || p.Detail != unknown.Error() {
		t.Errorf("%d are named: %s", len(p.Known), p.Detail)
	}
}

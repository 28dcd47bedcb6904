package filters_test

import (
	"encoding/json"
	"fmt"
	"strconv"
	"strings"
	"testing"

	"github.com/cr-clawer/urifilter/client"
	"github.com/cr-clawer/urifilter/daemon/internal/testkit/apitest"
)

// Every answer of a filter beyond its capacity says so, in all forms, and no earlier answer does.
func TestOverCapacityIsTold(t *testing.T) {
	r := apitest.New(t)
	r.Put("small", `{"capacity":20000,"error_rate":0.01,"on_full":"warn"}`)
	lines := func(from, to int) string {
		var b strings.Builder
		for i := from; i < to; i++ {
			fmt.Fprintf(&b, "item %d\n", i)
		}
		return b.String()
	}
	told := func(a apitest.Answer) string {
		return a.Header.Get("Urifilter-Over-Capacity") + a.Trailer.Get("Urifilter-Over-Capacity")
	}
	const list = `{"filter_typeid":"small","uri_list":["item 1"]}`
	for _, a := range []apitest.Answer{
		r.Post("/api/v1/filter?filter_typeid=small", lines(0, 10_000), "Content-Type", apitest.TextType),
		r.Post("/api/v1/filter", list), r.Post("/api/v1/check", list),
	} {
		if a.Status != 200 || told(a) != "" || strings.Contains(a.Body, "over_capacity") {
			t.Errorf("half full: %d %q %q", a.Status, told(a), a.Body)
		}
	}
	for _, a := range []apitest.Answer{
		r.Post("/api/v1/filter?filter_typeid=small", lines(10_000, 80_000), "Content-Type", apitest.TextType),
		r.Post("/api/v1/check?filter_typeid=small", lines(0, 10), "Content-Type", apitest.TextType),
		r.Post("/api/v1/filter", list), r.Post("/api/v1/check", list),
	} {
		rate, err := strconv.ParseFloat(told(a), 64)
		if a.Status != 200 || err != nil || rate < 0.02 || rate > 1 {
			t.Errorf("past its capacity: %d, header %q", a.Status, told(a))
		}
		if !strings.HasPrefix(a.Body, "{") {
			continue
		}
		var v struct {
			Over bool    `json:"over_capacity"`
			FPR  float64 `json:"fpr_estimate"`
		}
		if err := json.Unmarshal([]byte(a.Body), &v); err != nil || !v.Over || v.FPR != rate {
			t.Errorf("past its capacity: %s, %v", a.Body, err)
		}
	}
	r.Do("POST", "/api/v1/filters/small/clear?confirm=small", "")
	if a := r.Post("/api/v1/check", list); told(a) != "" {
		t.Errorf("cleared: %q", told(a))
	}
	if a := r.Post("/api/v1/filter", `{"filter_typeid":"uri","uri_list":["item 1"]}`); told(a) != "" {
		t.Errorf("another filter: %q", told(a))
	}
	var result client.FilterResult[string]
	r.Post("/api/v1/filter?filter_typeid=small", lines(0, 80_000), "Content-Type", apitest.TextType)
	if err := json.Unmarshal([]byte(r.Post("/api/v1/filter", list).Body), &result); err != nil || !result.OverCapacity || result.FPREstimate == 0 {
		t.Errorf("the wire type: %+v, %v", result, err)
	}
}

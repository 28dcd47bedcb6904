package history

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"
)

// script reads a history of item 1 of filter "f", one call per field:
//
//	from-to:outcome[@daemon#life][/expire]
//
// Times are in seconds; outcomes are n(ew), s(een), a(bsent), p(resent), u(nknown), r(efused); a
// call without "to" never returned.
func script(t *testing.T, text string) []Call {
	t.Helper()
	var calls []Call
	for i, field := range strings.Fields(text) {
		c := Call{Caller: fmt.Sprintf("c%d", i), Daemon: "d1", Life: 1, Filter: "f", Items: []uint32{1}}
		field, expire, _ := strings.Cut(field, "/")
		field, daemon, found := strings.Cut(field, "@")
		if found {
			name, life, _ := strings.Cut(daemon, "#")
			c.Daemon = name
			if _, err := fmt.Sscan(life, &c.Life); err != nil {
				t.Fatal(err)
			}
		}
		span, outcome, _ := strings.Cut(field, ":")
		from, to, _ := strings.Cut(span, "-")
		c.Invoke, c.Return, c.Expire = seconds(t, from, 0), seconds(t, to, Forever), seconds(t, expire, 0)
		o := strings.Index("nsapur", outcome)
		if o < 0 || len(outcome) != 1 {
			t.Fatalf("outcome %q", outcome)
		}
		c.Outcomes = []Outcome{Outcome(o)}
		calls = append(calls, c)
	}
	return calls
}

func seconds(t *testing.T, text string, none time.Duration) time.Duration {
	t.Helper()
	if text == "" {
		return none
	}
	d, err := time.ParseDuration(text + "s")
	if err != nil {
		t.Fatal(err)
	}
	return d
}

func TestHistories(t *testing.T) {
	dropped := func(h *History) {
		h.Incarnations = map[string][]Incarnation{"f": {{0, 0, 10e9, 12e9}, {10e9, 12e9, Forever, Forever}}}
	}
	tolerant := func(h *History) { h.Tolerance = Tolerance{Early: 100 * time.Millisecond, Late: time.Second} }
	lossAt := func(at, life int) func(*History) {
		return func(h *History) {
			h.Losses = []Loss{{time.Duration(at) * time.Second, time.Duration(at+1) * time.Second, map[string]int{"d1": life}}}
		}
	}
	for name, c := range map[string]struct {
		calls string
		with  func(*History)
		want  Rule // "": legal
	}{
		"one caller":                       {calls: "1-2:n 3-4:s 5-6:p"},
		"nobody was told":                  {calls: "1-2:r 3-4:r 5-6:a"},
		"new, then new":                    {calls: "1-2:n 3-4:n", want: NewTwice},
		"new at the same time":             {calls: "1-4:n 2-3:n", want: NewTwice},
		"three new":                        {calls: "1-2:n 3-4:n 5-6:n", want: NewTwice},
		"new twice beside an unknown":      {calls: "1-2:u 3-4:n 5-6:n", want: NewTwice},
		"seen beside new, which ends last": {calls: "1-9:n 2-3:s"},
		"seen beside new, which ends":      {calls: "2-3:n 1-9:s"},
		"seen by all":                      {calls: "1-2:s 3-4:s", want: NewForNobody},
		"present by nobody":                {calls: "1-2:p", want: NewForNobody},
		"refused, then seen":               {calls: "1-2:r 3-4:s", want: NewForNobody},
		"seen, then new":                   {calls: "1-2:s 3-4:n", want: SeenBeforeNew},
		"refused, seen, then new":          {calls: "1-2:r 3-4:s 5-6:n", want: SeenBeforeNew},
		"seen, then unknown":               {calls: "1-2:s 3-4:u", want: NewForNobody},
		"unknown, then seen":               {calls: "1-2:u 3-4:s"},
		"unknown, then new":                {calls: "1-2:u 3-4:n"},
		"unknown, seen, new":               {calls: "1-2:u 3-4:s 5-6:n"},
		"unknown takes effect late":        {calls: "1-2:u 3-4:a 5-6:s"},
		"unknown beside seen":              {calls: "2-9:u 1-3:s"},
		"never returned, then seen":        {calls: "1-:u 3-4:s"},
		"new, then absent":                 {calls: "1-2:n 3-4:a", want: Forgotten},
		"seen, then absent":                {calls: "1-2:n 1-3:s 4-5:a", want: Forgotten},
		"present, then absent":             {calls: "0-9:n 1-3:p 4-5:a", want: Forgotten},
		"absent beside new":                {calls: "1-3:n 2-4:a"},
		"absent, then new":                 {calls: "1-2:a 3-4:n"},
		"unknown, seen, absent":            {calls: "1-2:u 3-4:s 5-6:a"},
		"refused beside new":               {calls: "1-2:n 1-2:r 3-4:r"},

		"given to the next caller": {calls: "1-2:n 3-4:u 5-6:n", with: func(h *History) { h.UnknownIsNew = true }},
		"given to the next two":    {calls: "1-2:n 3-4:u 5-6:n 7-8:n", with: func(h *History) { h.UnknownIsNew = true }, want: NewTwice},

		"expired":                       {calls: "1-2:n/10 12-13:n/10"},
		"not yet expired":               {calls: "1-2:n/10 4-5:n/10", want: NewTwice},
		"perhaps expired":               {calls: "1-2:n/10 10.5-11.5:n/10"},
		"within the tolerance":          {calls: "1-2:n/10 10-10.95:n/10", with: tolerant},
		"beside each other":             {calls: "1-3:n/1 2-4:n/1"},
		"beside each other, for long":   {calls: "1-3:n/10 2-4:n/10", want: NewTwice},
		"seen in time":                  {calls: "1-2:n/10 11.5-12:s/10"},
		"seen after its time":           {calls: "1-2:n/10 14-15:s/10", with: tolerant, want: SeenTooLate},
		"seen after the second":         {calls: "1-2:n/10 14-15:n/10 16-17:s/10"},
		"absent in time":                {calls: "1-2:n/10 4-5:a/10", want: Forgotten},
		"absent after its time":         {calls: "1-2:n/10 12-13:a/10"},
		"seen after a daemon was down":  {calls: "1-2:n/10 14-15:s/10", with: func(h *History) { tolerant(h); h.Downs = []Down{{3, 3}, {3 * time.Second, 5 * time.Second}} }},
		"the clock was set forward":     {calls: "1-2:n/10 4-5:n/10", with: func(h *History) { h.Steps = []Step{{3 * time.Second, 7 * time.Second}} }},
		"the clock was set, not enough": {calls: "1-2:n/10 4-5:n/10", with: func(h *History) { h.Steps = []Step{{3 * time.Second, 5 * time.Second}} }, want: NewTwice},
		"the clock was set before":      {calls: "1-2:n/10 4-5:n/10", with: func(h *History) { h.Steps = []Step{{0, 50 * time.Second}} }, want: NewTwice},

		"lost with its daemon":            {calls: "1-2:n@d1#1/99 9-10:n@d2#1/99", with: lossAt(5, 2)},
		"lost before it was accepted":     {calls: "7-8:n@d1#1/99 9-10:n@d2#1/99", with: lossAt(5, 2), want: NewTwice},
		"lost after it was new again":     {calls: "1-2:n@d1#1/99 3-4:n@d2#1/99", with: lossAt(5, 2), want: NewTwice},
		"lost, but its daemon lives":      {calls: "1-2:n@d1#2/99 9-10:n@d2#1/99", with: lossAt(5, 2), want: NewTwice},
		"lost, but items are for ever":    {calls: "1-2:n@d1#1 9-10:n@d2#1", with: lossAt(5, 2), want: NewTwice},
		"lost with its daemon, for ever":  {calls: "1-2:n@d1#1 9-10:n@d2#1", with: func(h *History) { lossAt(5, 2)(h); h.OwnLife = map[string]bool{"f": true} }},
		"not lost, though it could be":    {calls: "1-2:n@d1#1 3-4:n@d2#1", with: func(h *History) { lossAt(5, 2)(h); h.OwnLife = map[string]bool{"f": true} }, want: NewTwice},
		"lost with its daemon, then gone": {calls: "1-2:n@d1#1/99 9-10:a@d2#1/99", with: lossAt(5, 2)},

		"new in two incarnations":              {calls: "1-2:n 13-14:n", with: dropped},
		"new twice in the second":              {calls: "1-2:n 13-14:n 15-16:n", with: dropped, want: NewTwice},
		"new beside the drop":                  {calls: "1-2:n 11-11.5:n 13-14:s", with: dropped},
		"seen in the second, new in the first": {calls: "1-2:n 13-14:s", with: dropped, want: NewForNobody},
		"remembered beside the making":         {calls: "9-13:u 14-15:s", with: dropped},
		"refused beside the making":            {calls: "9-13:r 14-15:s", with: dropped, want: NewForNobody},
	} {
		t.Run(name, func(t *testing.T) {
			h := &History{Calls: script(t, c.calls)}
			if c.with != nil {
				c.with(h)
			}
			r := Check(h)
			var got Rule
			if len(r.Violations) > 0 {
				got = r.Violations[0].Rule
			}
			if got != c.want {
				t.Fatalf("%s: got %q, want %q", c.calls, got, c.want)
			}
			for i := range r.Violations {
				r.Violations[i].mustBeMinimal(t, h)
			}
		})
	}
}

// mustBeMinimal checks that the witness alone breaks the rule, and that it does not break it
// without any one of its calls; a "seen" that nothing explains stands for itself.
func (v *Violation) mustBeMinimal(t *testing.T, h *History) {
	t.Helper()
	part := *h
	breaks := func(ops []Op) bool {
		part.Calls = nil
		for _, op := range ops {
			c := *op.Call
			c.Outcomes = []Outcome{op.Outcome}
			part.Calls = append(part.Calls, c)
		}
		return slices.ContainsFunc(Check(&part).Violations, func(found Violation) bool { return found.Rule == v.Rule })
	}
	if !breaks(v.Witness) {
		t.Errorf("%s: the witness is legal", v.Rule)
	}
	for i := range v.Witness {
		if breaks(slices.Delete(slices.Clone(v.Witness), i, i+1)) && !h.UnknownIsNew {
			t.Errorf("%s: call %d of the witness is not needed", v.Rule, i)
		}
	}
}

// The given number of a filter's items may be false positives; one more is a violation, and no
// other rule is relaxed for them.
func TestFalsePositives(t *testing.T) {
	for calls, want := range map[string][2]int{"1-2:s": {0, 1}, "1-2:s 3-4:n": {1, 0}, "1-2:n 3-4:n": {1, 0}} {
		h := &History{Calls: script(t, calls), FalsePositives: map[string]int{"f": 1}}
		for i := range h.Calls {
			h.Calls[i].Filter = "f"
		}
		if r := Check(h); len(r.Violations) != want[0] || r.FalsePositives != want[1] {
			t.Errorf("%s: %d violations, %d false positives, want %v", calls, len(r.Violations), r.FalsePositives, want)
		}
		h.Calls = append(h.Calls, Call{Filter: "f", Invoke: 60 * time.Second, Return: 61 * time.Second, Items: []uint32{7, 8}, Outcomes: []Outcome{Seen, Seen}})
		if r := Check(h); len(r.Violations) == 0 || r.FalsePositives > 1 {
			t.Errorf("%s and two more: %d violations, %d false positives", calls, len(r.Violations), r.FalsePositives)
		}
	}
}

// TestShortestFirst requires the simplest of several violations to come first, and a printed
// violation to show the faults around it and no others.
func TestShortestFirst(t *testing.T) {
	h := &History{
		Calls: script(t, "1-2:n 3-4:s 50-51:n"),
		Faults: []Fault{
			{"kill", "d2", 3 * time.Second, 4 * time.Second},
			{"kill", "d3", 90 * time.Second, 91 * time.Second},
		},
	}
	lonely := Call{Caller: "x", Daemon: "d9", Filter: "f", Invoke: 60 * time.Second, Return: 61 * time.Second, Items: []uint32{7, 8}, Outcomes: []Outcome{Seen, New}}
	h.Calls = append(h.Calls, lonely)
	r := Check(h)
	if len(r.Violations) != 2 || r.Violations[0].Item.Number != 7 || r.Items != 3 {
		t.Fatalf("got %d items, %+v", r.Items, r.Violations)
	}
	if got := r.Rules(); got[NewTwice] != 1 || got[NewForNobody] != 1 || len(r.Shortest(1)) != 2 {
		t.Errorf("rules %v", got)
	}
	var b strings.Builder
	r.Violations[1].Print(&b, h, func(i Item) string { return fmt.Sprint("item ", i.Number) })
	text := b.String()
	for _, want := range []string{"new twice: item 1\n", ">     1.000 .. 2.000", "kill d2", ">    50.000"} {
		if !strings.Contains(text, want) {
			t.Errorf("%q is missing in:\n%s", want, text)
		}
	}
	if strings.Contains(text, "kill d3") || strings.Count(text, ">") != 2 {
		t.Errorf("too much in:\n%s", text)
	}
}

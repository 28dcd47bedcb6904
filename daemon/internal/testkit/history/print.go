package history

import (
	"cmp"
	"fmt"
	"io"
	"slices"
	"strings"
	"time"
)

// around is how long before and after a witness a fault is of interest.
const around = time.Second

// maxOps bounds how much of an item's history is printed beside the witness.
const maxOps = 30

// Rules counts the violations, by rule.
func (r *Report) Rules() map[Rule]int {
	counts := map[Rule]int{}
	for i := range r.Violations {
		counts[r.Violations[i].Rule]++
	}
	return counts
}

// Shortest are the n shortest violations of each rule, by rule.
func (r *Report) Shortest(n int) []*Violation {
	counts := map[Rule]int{}
	var some []*Violation
	for i := range r.Violations {
		v := &r.Violations[i]
		if counts[v.Rule]++; counts[v.Rule] <= n {
			some = append(some, v)
		}
	}
	slices.SortStableFunc(some, func(a, b *Violation) int { return cmp.Compare(a.Rule, b.Rule) })
	return some
}

// near says whether a fault was around the time of a call that may have been the reason.
func (v *Violation) near(f Fault) bool {
	return slices.ContainsFunc(v.All, func(op Op) bool {
		telling := slices.Contains(v.Witness, op) || op.Outcome == Refused || op.Outcome == Unknown
		return telling && f.To >= op.Invoke-around && (op.Return == Forever || f.From <= op.Return+around)
	})
}

// Print writes the witness, marked with >, among the item's calls, and the faults around it.
func (v *Violation) Print(w io.Writer, h *History, name func(Item) string) {
	fmt.Fprintf(w, "%s: %s\n", v.Rule, name(v.Item))
	type line struct {
		at   time.Duration
		text string
	}
	var lines []line
	left := 0
	for _, op := range v.All {
		mark := " "
		if slices.Contains(v.Witness, op) {
			mark = ">"
		} else if len(lines) >= maxOps {
			left++
			continue
		}
		to := "never"
		if op.Return != Forever {
			to = fmt.Sprintf("%.3f", op.Return.Seconds())
		}
		text := fmt.Sprintf("%s %9.3f .. %-9s %-10s %-6s %s", mark, op.Invoke.Seconds(), to, op.Caller, fmt.Sprintf("%s#%d", op.Daemon, op.Life), op.Outcome)
		if op.Told != "" {
			text += " (" + op.Told + ")"
		}
		lines = append(lines, line{op.Invoke, text})
	}
	for _, f := range h.Faults {
		if v.near(f) {
			lines = append(lines, line{f.From, fmt.Sprintf("  %9.3f .. %-9.3f fault: %s %s", f.From.Seconds(), f.To.Seconds(), f.Name, f.Target)})
		}
	}
	slices.SortStableFunc(lines, func(a, b line) int { return cmp.Compare(a.at, b.at) })
	var b strings.Builder
	for _, l := range lines {
		b.WriteString(l.text + "\n")
	}
	if left > 0 {
		fmt.Fprintf(&b, "  and %d more calls\n", left)
	}
	_, _ = io.WriteString(w, b.String())
}

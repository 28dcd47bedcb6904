package history

import (
	"cmp"
	"maps"
	"slices"
	"time"
)

// Rule names what a history breaks.
type Rule string

const (
	NewTwice      Rule = "new twice"
	NewForNobody  Rule = "new for nobody"
	SeenBeforeNew Rule = "seen before new"
	Forgotten     Rule = "forgotten"
	SeenTooLate   Rule = "seen after its time"
)

// Item is one register.
type Item struct {
	Filter      string
	Incarnation int
	Number      uint32
}

// Op is a call, as one item sees it.
type Op struct {
	*Call
	Outcome Outcome
}

// Violation is an item whose history breaks a rule.
type Violation struct {
	Rule Rule
	Item Item
	// Witness is the shortest sub-history that breaks the rule: without any of it, it
	// would be legal. All is the item's whole history, by invocation.
	Witness, All []Op
}

// span is how long the witness takes.
func (v *Violation) span() time.Duration {
	from, to := Forever, time.Duration(0)
	for _, op := range v.Witness {
		from, to = min(from, op.Invoke), max(to, op.Return)
	}
	return to - from
}

// Report is the result of a check.
type Report struct {
	Calls, Items int
	Told         [outcomes]int // ops by outcome
	Violations   []Violation   // the shortest first; one per item and rule
	// FalsePositives counts the items that were new for nobody and are not among the violations.
	FalsePositives int
}

// Check checks a history against the rules.
func Check(h *History) *Report {
	r := &Report{Calls: len(h.Calls)}
	registers := map[Item][]Op{}
	for i := range h.Calls {
		c := &h.Calls[i]
		for n, inc := range h.incarnations(c.Filter) {
			perhaps, certainly := inc.meets(c)
			if !perhaps {
				continue
			}
			for k, number := range c.Items {
				o := c.Outcomes[k]
				if !certainly && o != Refused {
					o = Unknown
				}
				item := Item{c.Filter, n, number}
				registers[item] = append(registers[item], Op{c, o})
				r.Told[o]++
			}
		}
	}
	r.Items = len(registers)
	forgiven := maps.Clone(h.FalsePositives)
	for item, ops := range registers {
		slices.SortStableFunc(ops, func(a, b Op) int { return cmp.Compare(a.Invoke, b.Invoke) })
		found := h.judge(item, ops)
		if len(found) == 1 && found[0].Rule == NewForNobody && forgiven[item.Filter] > 0 {
			forgiven[item.Filter]--
			r.FalsePositives++
			continue
		}
		r.Violations = append(r.Violations, found...)
	}
	slices.SortFunc(r.Violations, func(a, b Violation) int {
		return cmp.Or(cmp.Compare(len(a.Witness), len(b.Witness)), cmp.Compare(len(a.All), len(b.All)),
			cmp.Compare(a.span(), b.span()), cmp.Compare(a.Item.Number, b.Item.Number))
	})
	return r
}

// judge looks for one witness of each rule.
func (h *History) judge(item Item, ops []Op) []Violation {
	var found []Violation
	for _, look := range []func([]Op) (Rule, []Op){h.newTwice, h.unexplained, h.forgotten} {
		if rule, witness := look(ops); witness != nil {
			found = append(found, Violation{rule, item, witness, ops})
		}
	}
	return found
}

// withOutcome returns the ops that have one of these outcomes.
func withOutcome(ops []Op, outcomes ...Outcome) []Op {
	var some []Op
	for _, op := range ops {
		if slices.Contains(outcomes, op.Outcome) {
			some = append(some, op)
		}
	}
	return some
}

// newTwice looks for two callers who got the item.
func (h *History) newTwice(ops []Op) (Rule, []Op) {
	news := withOutcome(ops, New)
	spare := 0
	if h.UnknownIsNew {
		spare = len(withOutcome(ops, Unknown))
	}
	for i, first := range news {
		clashes := []Op{first}
		for _, second := range news[i+1:] {
			if !h.expiredBetween(first, second) && !h.lost(first, second) {
				clashes = append(clashes, second)
			}
		}
		if len(clashes) > 1+spare {
			return NewTwice, clashes[:2+spare]
		}
	}
	return "", nil
}

// unexplained looks for a seen item that nobody can have made so.
func (h *History) unexplained(ops []Op) (Rule, []Op) {
	reasons := withOutcome(ops, New, Unknown)
	for _, seen := range withOutcome(ops, Seen, Present) {
		late := (*Op)(nil)
		explained := slices.ContainsFunc(reasons, func(o Op) bool {
			if o.Invoke > seen.Return {
				return false
			}
			if o.Outcome == New && h.over(o, seen) {
				late = &o
				return false
			}
			return true
		})
		switch {
		case explained:
		case late != nil:
			return SeenTooLate, []Op{*late, seen}
		default:
			for _, o := range withOutcome(ops, New) {
				return SeenBeforeNew, []Op{seen, o}
			}
			return NewForNobody, []Op{seen}
		}
	}
	return "", nil
}

// forgotten looks for an item that a check found new after it was remembered.
func (h *History) forgotten(ops []Op) (Rule, []Op) {
	for _, absent := range withOutcome(ops, Absent) {
		for _, o := range withOutcome(ops, New, Seen, Present) {
			if o.Return >= absent.Invoke || h.lost(o, absent) {
				continue
			}
			lost := slices.ContainsFunc(withOutcome(ops, Unknown), func(u Op) bool {
				return u.Invoke <= o.Return || h.UnknownIsNew && u.Invoke <= absent.Return
			})
			if o.Outcome == New && !h.expiredBetween(o, absent) && !(lost && h.UnknownIsNew) ||
				o.Outcome != New && !h.ownLife(o) && !lost {
				return Forgotten, []Op{o, absent}
			}
		}
	}
	return "", nil
}

// Package history checks what callers of a filter were told against the one rule: of
// equal items exactly one is new.
//
// # Model
//
// An item of one incarnation of a filter (from its creation to its drop) is a register
// that begins unset. A call on it takes effect at one moment between its invocation and its
// return, or not at all:
//
//	told      effect, at one moment of [invoke, return]
//	New       unset or unknown -> set
//	Seen      none, and the register is not unset
//	Absent    none, and it is not set    (check: would be new)
//	Present   as Seen                    (check: would not)
//	Unknown   unset -> unknown, at any moment from invoke on, even after the return; or none
//	Refused   none: the error promised that nothing was remembered
//
// Unknown is the outcome for a caller whose connection broke, or who got an error that says
// so. A call that never returned is Unknown too. The state of such an item is unknown: daemons
// may call it seen, and yet one of them may know that nobody was told, and give it to the
// next caller as new. That settles it.
//
// A history is legal if there is an order of effects that agrees with all intervals. For
// this register that amounts to four rules, each of which has a witness of one or two calls:
//
//	new twice         two New. (Where the daemons are told to give an item of unknown
//	                  outcome to the next caller, one more for each Unknown is legal.)
//	new for nobody    a Seen or Present that no New or Unknown explains, that is: none was
//	                  invoked before it returned. No caller was told New, now or later.
//	seen before new   the same, but some caller was told New later: nobody misses the item,
//	                  and yet an answer was wrong.
//	forgotten         an Absent that was invoked after a New had returned; or after a Seen
//	                  or Present had returned that no Unknown can have caused.
//
// The rules are equivalent to the model; a test compares them with a search of all orders.
//
// # Items that expire
//
// The register of such an item becomes unset again when its time is over, counted from the
// moment of the New. Two New are then legal if some choice of moments puts them apart by the
// time of the first; a Seen requires a New whose time was not over when it was invoked; an
// Absent contradicts a New only while its time cannot be over. [Tolerance] says how far
// clocks may differ, and what the documents allow beyond: [Step] of a clock, [Down] of a
// daemon, [Loss] of a store that only living daemons repair.
//
// # Filters that are dropped
//
// While a drop or the creation that follows it is under way, it is not known which incarnation
// a call met. The call counts as Unknown in each that it may have met, and so explains
// everything and contradicts nothing.
//
// # What it cannot see
//
// A false positive of a bloom filter looks like an item that is new for nobody: campaigns use
// filters so empty that none is expected. That no item is lost shows only for items that
// are queried later: campaigns end by querying all of them.
//
// The package knows no network and no process; package chaos makes the histories.
package history

import (
	"math"
	"time"
)

// Outcome is what a caller was told of one item.
type Outcome uint8

const (
	New Outcome = iota
	Seen
	Absent
	Present
	Unknown
	Refused
	outcomes int = iota
)

func (o Outcome) String() string {
	return [...]string{"new", "seen", "check: new", "check: seen", "UNKNOWN", "refused"}[o]
}

// Forever is the Return of a call that never returned.
const Forever = time.Duration(math.MaxInt64)

// Call is one call of one caller. Times are since the campaign began.
type Call struct {
	Caller string
	// Daemon is the daemon that answered, or was asked last; Life is how often it had been started.
	Daemon string
	Life   int
	Filter string

	Invoke, Return time.Duration
	// Expire is how long the items are remembered; 0: for ever.
	Expire time.Duration

	Items    []uint32 // no item twice
	Outcomes []Outcome
	// Told is the error, for people; "" for an answer.
	Told string
}

// Incarnation is one life of a filter. From Begin to End every daemon serves it and no
// other; some daemon may do so from Earliest to Latest.
type Incarnation struct {
	Earliest, Begin, End, Latest time.Duration
}

// Fault is something that was done to the servers.
type Fault struct {
	Name, Target string
	From, To     time.Duration
}

// Loss is a store that lost its data and got it back from the daemons that were alive: Lives
// has the life of each of them. Items that expire and that an earlier life accepted are
// forgotten, as the documents say.
type Loss struct {
	From, To time.Duration
	Lives    map[string]int
}

// Step is a clock that was set by By, which a daemon that started at the moment At may have
// counted as time that has passed.
type Step struct{ At, By time.Duration }

// Down is a span in which a daemon's own clock stood still.
type Down struct{ From, To time.Duration }

// Tolerance is how much earlier or later than it should an item may expire.
type Tolerance struct{ Early, Late time.Duration }

// History is a campaign.
type History struct {
	Calls  []Call
	Faults []Fault
	// Incarnations are those of filters that were dropped; others have one.
	Incarnations map[string][]Incarnation
	Losses       []Loss
	Steps        []Step
	Downs        []Down
	Tolerance    Tolerance
	// UnknownIsNew says that an item of unknown outcome is given to the next caller.
	UnknownIsNew bool
	// FalsePositives is how many items of a filter may be new for nobody: as many as its error
	// rate makes likely. Filters that are not in it have none.
	FalsePositives map[string]int
	// OwnLife has the filters for which a daemon, when the store has lost its data, puts back only
	// what it has accepted itself since it was started. The same is true of all filters whose
	// items expire.
	OwnLife map[string]bool
}

// incarnations returns those of a filter; one for all time if it was never dropped.
func (h *History) incarnations(filter string) []Incarnation {
	if all := h.Incarnations[filter]; len(all) > 0 {
		return all
	}
	return []Incarnation{{0, 0, Forever, Forever}}
}

// meets says whether call c may have met the incarnation, and whether it certainly has.
func (i Incarnation) meets(c *Call) (perhaps, certainly bool) {
	return c.Invoke <= i.Latest && c.Return >= i.Earliest, c.Invoke >= i.Begin && c.Return <= i.End
}

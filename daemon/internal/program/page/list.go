package page

import (
	"cmp"
	"slices"
	"strconv"
	"strings"
)

// onPage is how many rows of a list one page shows.
const onPage = 50

// List is one page of a long list: of what was searched for, in an order.
type List[T any] struct {
	Shown            []T
	All, Found, From int    // rows: of the list, that were found, before those shown
	Sort             string // the key of the order
	Prev, Next       string // addresses; "": there is none
}

// Last is the number of the last row shown.
func (l List[T]) Last() int { return l.From + len(l.Shown) }

// Listed is the page of rows that the address asks for, by q (what matches says), sort and page. The rows come by name, and
// orders has the other orders.
func Listed[T any](v *View, rows []T, matches func(row T, q string) bool, orders map[string]func(a, b T) int) List[T] {
	l := List[T]{All: len(rows), Sort: "name"}
	q := strings.ToLower(strings.TrimSpace(v.Query("q")))
	found := make([]T, 0, len(rows))
	for _, row := range rows {
		if q == "" || matches(row, q) {
			found = append(found, row)
		}
	}
	if order := orders[v.Query("sort")]; order != nil {
		l.Sort = v.Query("sort")
		slices.SortStableFunc(found, order)
	}
	number, _ := strconv.Atoi(v.Query("page"))
	l.Found = len(found)
	l.From = min(max(0, number), max(0, len(found)-1)/onPage) * onPage
	l.Shown = found[l.From:min(len(found), l.From+onPage)]
	address := func(page int) string {
		if page == 0 {
			return v.With("page", "")
		}
		return v.With("page", strconv.Itoa(page))
	}
	if l.From > 0 {
		l.Prev = address(l.From/onPage - 1)
	}
	if l.Last() < len(found) {
		l.Next = address(l.From/onPage + 1)
	}
	return l
}

// Note is what deserves attention: a text with its arguments.
type Note struct {
	Of, Link string // what it is about, and its page; "": the program itself
	Key      string
	Args     []any
	Level    string // bad or warn
}

const maxNotes = 20

// Notes are those of a page, the worst first.
type Notes []Note

// Sorted are the notes, the bad ones before the warnings.
func (n Notes) Sorted() Notes {
	slices.SortStableFunc(n, func(a, b Note) int { return cmp.Compare(a.Level, b.Level) })
	return n
}

// Top are those that are shown, and More is how many others there are.
func (n Notes) Top() Notes { return n[:min(len(n), maxNotes)] }
func (n Notes) More() int  { return len(n) - len(n.Top()) }

package diff

// compare finds the shortest list of edits that makes b of a (E. Myers, "An O(ND)
// Difference Algorithm and Its Variations", 1986, the greedy form). Lines that go come
// before the lines that replace them.
func compare(a, b []string) []edit {
	head := 0
	for head < len(a) && head < len(b) && a[head] == b[head] {
		head++
	}
	tail := 0
	for tail < len(a)-head && tail < len(b)-head && a[len(a)-1-tail] == b[len(b)-1-tail] {
		tail++
	}
	var edits []edit
	edits = add(edits, ' ', a[:head])
	edits = append(edits, middle(a[head:len(a)-tail], b[head:len(b)-tail])...)
	return add(edits, ' ', a[len(a)-tail:])
}

func add(edits []edit, kind byte, lines []string) []edit {
	for _, line := range lines {
		edits = append(edits, edit{kind, line})
	}
	return edits
}

// middle compares texts that differ in their first and in their last line.
//
// A point (x, y) stands for x lines of a and y of b dealt with, on the diagonal
// k = x-y. reach[d][k+d] is the largest x on diagonal k after d edits.
func middle(a, b []string) []edit {
	var reach [][]int
	for d := 0; d <= min(len(a)+len(b), limit); d++ {
		row := make([]int, 2*d+1)
		for k := -d; k <= d; k += 2 {
			x := 0
			if d > 0 {
				x, _ = step(reach[d-1], d, k)
			}
			for x < len(a) && x-k >= 0 && x-k < len(b) && a[x] == b[x-k] {
				x++
			}
			row[k+d] = x
			if x >= len(a) && x-k >= len(b) {
				return trace(append(reach, row), a, b)
			}
		}
		reach = append(reach, row)
	}
	return add(add(nil, '-', a), '+', b)
}

// step takes the d-th edit onto diagonal k from the better of its neighbours: where x
// begins, and the diagonal that it came from.
func step(before []int, d, k int) (x, from int) {
	at := func(k int) int { return before[k+d-1] }
	// From k+1 a line of b was added, x stays; from k-1 a line of a was taken.
	if k == -d || k != d && at(k-1) < at(k+1) {
		return at(k + 1), k + 1
	}
	return at(k-1) + 1, k - 1
}

// trace goes back from the end to the start along the way that was found.
func trace(reach [][]int, a, b []string) []edit {
	var back []edit
	x, y := len(a), len(b)
	for d := len(reach) - 1; d > 0; d-- {
		k := x - y
		begin, from := step(reach[d-1], d, k)
		for x > begin {
			x, y = x-1, y-1
			back = append(back, edit{' ', a[x]})
		}
		if from == k+1 {
			y--
			back = append(back, edit{'+', b[y]})
		} else {
			x--
			back = append(back, edit{'-', a[x]})
		}
	}
	for x > 0 {
		x--
		back = append(back, edit{' ', a[x]})
	}
	edits := make([]edit, 0, len(back))
	for i := len(back) - 1; i >= 0; i-- {
		edits = append(edits, back[i])
	}
	return takenFirst(edits)
}

// takenFirst puts, in each run of changes, the lines that go before those that come.
func takenFirst(edits []edit) []edit {
	ordered := make([]edit, 0, len(edits))
	var come []edit
	for _, e := range edits {
		switch e.kind {
		case '+':
			come = append(come, e)
			continue
		case ' ':
			ordered = append(ordered, come...)
			come = nil
		}
		ordered = append(ordered, e)
	}
	return append(ordered, come...)
}

package history

// expiredBetween says whether some moments of the two ops are so far apart that the item had
// expired between them. An op that only looks remembers nothing that could expire.
func (h *History) expiredBetween(a, b Op) bool {
	return h.expired(a, b) || b.Outcome == New && h.expired(b, a)
}

// expired says whether what first remembered can have expired when second took place.
func (h *History) expired(first, second Op) bool {
	if first.Expire == 0 || second.Return < first.Invoke {
		return false
	}
	if second.Return == Forever {
		return true
	}
	most := second.Return - first.Invoke // on the clock of the callers
	for _, s := range h.Steps {
		if s.At >= first.Invoke && s.At <= second.Return {
			most += s.By
		}
	}
	return most >= first.Expire-h.Tolerance.Early
}

// over says whether what o remembered must have expired when the call seen began.
func (h *History) over(o, seen Op) bool {
	if o.Expire == 0 || o.Return == Forever {
		return false
	}
	least := seen.Invoke - o.Return
	for _, d := range h.Downs {
		if stood := min(d.To, seen.Invoke) - max(d.From, o.Invoke); stood > 0 {
			least -= stood
		}
	}
	return least > o.Expire+h.Tolerance.Late
}

// lost says whether the documents allow that what o remembered was forgotten when later
// took place: the store has lost its data, and the life of the daemon that accepted the item,
// which alone would have put it back, had ended before.
func (h *History) lost(o, later Op) bool {
	if !h.ownLife(o) {
		return false
	}
	for _, l := range h.Losses {
		if o.Invoke <= l.To && later.Return >= l.From && l.Lives[o.Daemon] != o.Life {
			return true
		}
	}
	return false
}

func (h *History) ownLife(o Op) bool { return o.Expire > 0 || h.OwnLife[o.Filter] }

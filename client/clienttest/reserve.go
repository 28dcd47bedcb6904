package clienttest

import (
	"crypto/rand"
	"encoding/json"
	"fmt"
	"net/http"
	"strings"
	"time"

	"github.com/cr-clawer/urifilter/client"
)

// hold says which reservation has an item.
type hold struct {
	reservation string
	until       time.Time
}

// The outcomes of an item of a reservation, named after the calls.
const (
	held     = "held"
	commit   = "commit"
	released = "release"
)

// isHeld reports whether an item has a lease that has not expired. The caller holds mu.
func (f *filter) isHeld(k key, now time.Time) bool {
	h, is := f.held[k]
	return is && now.Before(h.until)
}

// refusesReservations answers the call, and returns true, if none of the filter's items can be reserved.
func (f *filter) refusesReservations(w http.ResponseWriter) bool {
	if f.kind == "exact" || f.kind == "timing" {
		return false
	}
	Problem(w, http.StatusUnprocessableEntity, "reserve_not_supported", "the filter is of the kind "+f.kind, nil)
	return true
}

// reserve answers POST /api/v1/reserve.
func (s *Server) reserve(w http.ResponseWriter, l *list, f *filter) {
	if f.refusesReservations(w) {
		return
	}
	if !(*l.lease > 0) || *l.lease > 86400 {
		Problem(w, http.StatusUnprocessableEntity, "lease_invalid", "lease: want more than 0, and at most 86400 (a day)", nil)
		return
	}
	now := s.now()
	until := now.Add(time.Duration(*l.lease * float64(time.Second)))
	if l.reservation == "" {
		var id [16]byte
		rand.Read(id[:]) // never fails
		l.reservation = fmt.Sprintf("%x", id)
	}
	result := client.ReserveResult[json.RawMessage]{URIList: []json.RawMessage{}, Reservation: l.reservation, Total: len(l.keys), InvalidItems: l.skipped}
	mine, told := f.reservations[l.reservation], map[key]bool{}
	if mine == nil {
		mine = map[key]string{}
	}
	for i, k := range l.keys {
		switch {
		case k == (key{}):
		case f.has(k, now) || told[k]:
			result.Duplicates++
		case mine[k] == held && f.held[k].reservation == l.reservation: // the call is repeated
			told[k] = true
			result.URIList = append(result.URIList, l.raw[i])
		case f.isHeld(k, now):
			result.Reserved++
		default:
			mine[k], told[k] = held, true
			f.held[k] = hold{result.Reservation, until}
			result.URIList = append(result.URIList, l.raw[i])
		}
	}
	if len(result.URIList) == 0 {
		result.Reservation, mine = strings.Repeat("0", 32), map[key]string{}
	}
	f.reservations[result.Reservation] = mine
	reply(w, http.StatusOK, result)
}

// settle answers POST /api/v1/commit and /api/v1/release.
func (s *Server) settle(w http.ResponseWriter, l *list, f *filter, as string) {
	if f.refusesReservations(w) {
		return
	}
	until, ok := time.Time{}, true
	if as == commit {
		until, ok = s.until(w, f, l.expire)
	}
	if !ok {
		return
	}
	mine := f.reservations[l.reservation]
	if mine == nil {
		Problem(w, http.StatusNotFound, "unknown_reservation", "the reservation is unknown to the filter", nil)
		return
	}
	result := client.SettleResult[json.RawMessage]{Lost: []json.RawMessage{}, InvalidItems: l.skipped}
	if l.raw == nil {
		for k, state := range mine {
			if state == held || state == as {
				l.keys = append(l.keys, k)
			}
		}
	}
	told := map[key]bool{}
	for i, k := range l.keys {
		if mine[k] == held && f.held[k].reservation == l.reservation {
			mine[k] = as
			delete(f.held, k)
			if as == commit {
				f.seen[k] = until
			}
		}
		switch {
		case k == (key{}):
		case mine[k] != as:
			result.LostTotal++
			if l.raw != nil {
				result.Lost = append(result.Lost, l.raw[i])
			}
		case !told[k]:
			told[k] = true
			result.Done++
		}
	}
	reply(w, http.StatusOK, result)
}

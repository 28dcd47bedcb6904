package clienttest

import (
	"bufio"
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"mime"
	"net/http"
	"net/url"
	"strconv"
	"time"
	"unicode/utf8"

	"github.com/cr-clawer/urifilter/client"
)

// blockBytes is how many bytes of a stream are answered at once, as in the daemon.
const blockBytes = 1 << 20

func (s *Server) batch(w http.ResponseWriter, r *http.Request, remember bool) {
	kind, _, err := mime.ParseMediaType(r.Header.Get("Content-Type"))
	switch {
	case err == nil && kind == "application/json" && r.URL.RawQuery == "":
		s.withList(w, r, func(w http.ResponseWriter, l *list, f *filter) { s.jsonBatch(w, l, f, remember) })
	case err == nil && (kind == "text/plain" || kind == "application/x-ndjson") && soundQuery(r.URL.Query()):
		s.stream(w, r, kind == "application/x-ndjson", remember)
	default:
		s.unexpected(w, "%s %s with content type %q", r.Method, r.URL.RequestURI(), r.Header.Get("Content-Type"))
	}
}

// list is a list of items as a call sends it.
type list struct {
	ref     string // of the filter
	raw     []json.RawMessage
	keys    []key // the zero key for skipped items
	expire  *float64
	skip    bool
	skipped client.InvalidItems

	lease       *float64
	reservation string
}

// readList reads the list of a call. It returns nil if the call has been answered.
func (s *Server) readList(w http.ResponseWriter, r *http.Request) *list {
	body, err := io.ReadAll(r.Body)
	if err != nil {
		return nil // the client is gone
	}
	var req struct {
		Type   json.RawMessage   `json:"filter_typeid"`
		List   []json.RawMessage `json:"uri_list"`
		Expire *float64          `json:"expire"`
		Skip   string            `json:"invalid"`

		Lease       *float64 `json:"lease"`
		Reservation *string  `json:"reservation"`
	}
	reserves, settles := r.URL.Path == "/api/v1/reserve", r.URL.Path == "/api/v1/commit" || r.URL.Path == "/api/v1/release"
	dec := json.NewDecoder(bytes.NewReader(body))
	dec.DisallowUnknownFields()
	if err := dec.Decode(&req); err != nil || req.List == nil && !settles || len(req.Type) == 0 || (req.Lease != nil) != reserves || settles != (req.Reservation != nil) && !reserves {
		s.unexpected(w, "%s %s: body %.200q: %v", r.Method, r.URL, body, err)
		return nil
	}
	l := &list{ref: string(req.Type), raw: req.List, keys: make([]key, len(req.List)), expire: req.Expire, skip: req.Skip == "skip", lease: req.Lease}
	if req.Reservation != nil {
		l.reservation = *req.Reservation
	}
	if req.Type[0] == '"' {
		json.Unmarshal(req.Type, &l.ref)
	}
	for i, raw := range req.List {
		k, err := itemKey(raw)
		if err != nil && !l.skip {
			Problem(w, http.StatusBadRequest, err.Error(), err.Error(), map[string]any{"index": i})
			return nil
		}
		if err != nil {
			note(&l.skipped, i, err, 100)
			continue
		}
		l.keys[i] = k
	}
	return l
}

// withList reads the list of a call, finds its filter, and calls answer with mu held.
func (s *Server) withList(w http.ResponseWriter, r *http.Request, answer func(w http.ResponseWriter, l *list, f *filter)) {
	l := s.readList(w, r)
	if l == nil {
		return
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if f := s.lookup(w, l.ref); f != nil {
		answer(w, l, f)
	}
}

func (s *Server) jsonBatch(w http.ResponseWriter, l *list, f *filter, remember bool) {
	if f.refusesItems(w) {
		return
	}
	if !remember {
		verdicts := make([]*bool, len(l.keys))
		for i, k := range l.keys {
			if k != (key{}) {
				fresh := !f.has(k, s.now()) && !f.isHeld(k, s.now())
				verdicts[i] = &fresh
			}
		}
		reply(w, http.StatusOK, struct {
			New []*bool `json:"new"`
			client.InvalidItems
		}{verdicts, l.skipped})
		return
	}
	until, ok := s.until(w, f, l.expire)
	if !ok {
		return
	}
	fresh := []json.RawMessage{}
	for i, k := range l.keys {
		if k != (key{}) && !f.has(k, s.now()) && !f.isHeld(k, s.now()) {
			delete(f.held, k)
			f.seen[k] = until
			fresh = append(fresh, l.raw[i])
		}
	}
	// Written by hand: the items go back byte for byte.
	out := []byte(`{"uri_list":[`)
	for i, raw := range fresh {
		if i > 0 {
			out = append(out, ',')
		}
		out = append(out, raw...)
	}
	out = fmt.Appendf(out, `],"total":%d,"duplicates":%d`, len(l.keys), len(l.keys)-len(fresh)-int(l.skipped.Invalid))
	if l.skip {
		items, _ := json.Marshal(l.skipped.Items) // it has nothing that cannot be marshalled
		out = fmt.Appendf(out, `,"invalid":%d,"invalid_items":%s`, l.skipped.Invalid, items)
	}
	out = append(out, '}')
	w.Header().Set("Content-Type", "application/json")
	w.Write(out)
}

// until returns the time until which items that are new now will be duplicates. If the call
// is invalid, until answers it and ok is false. The caller holds mu.
func (s *Server) until(w http.ResponseWriter, f *filter, expire *float64) (until time.Time, ok bool) {
	const limit = 315360000
	switch {
	case f.kind != "timing" && expire == nil:
		return time.Time{}, true
	case f.kind != "timing":
		Problem(w, http.StatusUnprocessableEntity, "expire_not_supported", "the filter is of another kind than timing", nil)
	case expire == nil && f.expire > 0:
		return s.now().Add(f.expire), true
	case expire == nil:
		Problem(w, http.StatusUnprocessableEntity, "expire_missing", "neither filter nor call says when items expire", nil)
	case *expire <= 0 || *expire > limit:
		Problem(w, http.StatusUnprocessableEntity, "expire_invalid", "expire: want seconds above 0, at most ten years", nil)
	default:
		return s.now().Add(time.Duration(*expire * float64(time.Second))), true
	}
	return time.Time{}, false
}

func soundQuery(q url.Values) bool {
	for name := range q {
		if name != "filter_typeid" && name != "expire" && name != "invalid" {
			return false
		}
	}
	return q.Has("filter_typeid")
}

func itemKey(raw json.RawMessage) (key, error) {
	var text string
	switch {
	case !json.Valid(raw):
		return key{}, errors.New("malformed_json")
	case !utf8.Valid(raw):
		return key{}, errors.New("invalid_utf8")
	case raw[0] == '"':
		if err := json.Unmarshal(raw, &text); err != nil {
			return key{}, errors.New("malformed_json")
		}
		if text == "" {
			return key{}, errors.New("empty_item")
		}
		return key{text, true}, nil
	case string(raw) == "null":
		return key{}, errors.New("null_item")
	}
	var b bytes.Buffer
	if json.Compact(&b, raw) != nil {
		return key{}, errors.New("malformed_json")
	}
	return key{b.String(), false}, nil
}

// stream answers block by block, and holds the header back until the first block is done.
func (s *Server) stream(w http.ResponseWriter, r *http.Request, ndjson, remember bool) {
	s.mu.Lock()
	f := s.lookup(w, r.URL.Query().Get("filter_typeid"))
	var until time.Time
	ok := f != nil && !f.refusesItems(w)
	if ok && remember {
		var expire *float64
		if text := r.URL.Query().Get("expire"); text != "" {
			seconds, err := strconv.ParseFloat(text, 64)
			if err != nil {
				s.unexpected(w, "expire %q", text)
			}
			expire = &seconds
		}
		until, ok = s.until(w, f, expire)
	}
	s.mu.Unlock()
	if !ok {
		return
	}
	http.NewResponseController(w).EnableFullDuplex()
	w.Header().Set("Content-Type", r.Header.Get("Content-Type"))
	in := bufio.NewReaderSize(r.Body, 64<<10)
	if bom, _ := in.Peek(3); string(bom) == "\xef\xbb\xbf" {
		in.Discard(3)
	}
	var a streamAnswer
	started, skip := false, r.URL.Query().Get("invalid") == "skip"
	for line, more := 0, true; more; {
		var block [][]byte
		for size := 0; size < blockBytes && more; line++ {
			raw, err := in.ReadBytes('\n')
			if err != nil && err != io.EOF {
				return // the client is gone
			}
			more = err == nil
			size += len(raw)
			item := bytes.TrimSuffix(bytes.TrimSuffix(raw, []byte{'\n'}), []byte{'\r'})
			if ndjson {
				item = bytes.TrimSpace(raw)
			}
			if len(item) == 0 {
				continue
			}
			if ndjson {
				_, err := itemKey(item)
				switch {
				case err == nil:
				case skip:
					note(&a.skipped, line, err, 20)
					item = nil
				case started:
					panic(http.ErrAbortHandler)
				default:
					Problem(w, http.StatusBadRequest, err.Error(), fmt.Sprintf("line %d", line), map[string]any{"index": line})
					return
				}
			}
			block = append(block, item)
		}
		s.judge(f, block, ndjson, remember, until, &a)
		if more && !started {
			started = true
			w.Header().Set("Trailer", "Urifilter-Total, Urifilter-Duplicates, Urifilter-Invalid, Urifilter-Invalid-Items")
			w.WriteHeader(http.StatusOK)
		}
		if started {
			w.Write(a.out)
			http.NewResponseController(w).Flush()
			a.out = a.out[:0]
		}
	}
	w.Header().Set("Urifilter-Total", strconv.Itoa(a.total))
	w.Header().Set("Urifilter-Duplicates", strconv.Itoa(a.duplicates))
	if skip {
		w.Header().Set("Urifilter-Invalid", strconv.FormatInt(a.skipped.Invalid, 10))
		items, _ := json.Marshal(a.skipped.Items) // it has nothing that cannot be marshalled
		w.Header().Set("Urifilter-Invalid-Items", string(items))
	}
	if !started {
		w.Header().Set("Content-Length", strconv.Itoa(len(a.out)))
		w.Write(a.out)
	}
}

type streamAnswer struct {
	out               []byte
	total, duplicates int
	skipped           client.InvalidItems
}

// note counts a skipped item, and describes it if it is one of the first.
func note(skipped *client.InvalidItems, index int, err error, limit int) {
	if skipped.Invalid++; len(skipped.Items) < limit {
		skipped.Items = append(skipped.Items, client.InvalidItem{Index: index, ErrorCode: err.Error(), Detail: err.Error()})
	}
}

func (s *Server) judge(f *filter, block [][]byte, ndjson, remember bool, until time.Time, a *streamAnswer) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, item := range block {
		if item == nil { // skipped
			a.total++
			if !remember {
				a.out = append(a.out, "null\n"...)
			}
			continue
		}
		k := key{string(item), true}
		if ndjson {
			k, _ = itemKey(item) // its syntax is checked
		}
		fresh := !f.has(k, s.now()) && !f.isHeld(k, s.now())
		a.total++
		if !fresh {
			a.duplicates++
		}
		switch {
		case remember:
			if fresh {
				f.seen[k] = until
				a.out = append(append(a.out, item...), '\n')
			}
		case ndjson:
			a.out = append(strconv.AppendBool(a.out, fresh), '\n')
		case fresh:
			a.out = append(a.out, "new\n"...)
		default:
			a.out = append(a.out, "seen\n"...)
		}
	}
}

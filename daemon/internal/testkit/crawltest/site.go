// Package crawltest has a site for tests of the crawler, which is always the same for the same
// number of pages and has the traps of real sites. It also checks what a crawl of it has stored.
package crawltest

import (
	"fmt"
	"net/http"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"golang.org/x/text/encoding"
	"golang.org/x/text/encoding/htmlindex"
)

// Site is an http.Handler. Page i of Pages leads to pages 8i+1 to 8i+8, to some others, and to traps.
type Site struct {
	Pages int
	Slow  time.Duration // delay of slow pages

	session atomic.Int64 // every answer has a new one in its links

	mu     sync.Mutex
	visits map[string]int // by path
	at     map[string][]time.Time
}

// Encodings are the encodings that pages use in rotation.
func Encodings() []string {
	return []string{"utf-8", "gb18030", "big5", "shift_jis", "euc-jp", "euc-kr", "windows-1251", "koi8-r", "iso-8859-7", "windows-1252"}
}

// words are the texts of pages, by encoding.
var words = map[string]string{
	"utf-8": "Grüße an alle Leser", "gb18030": "这一页说的是天气和人们", "big5": "這一頁說的是天氣和人們", "shift_jis": "このページは天気のことです",
	"euc-jp": "今日は良い天気ですね", "euc-kr": "오늘은 날씨가 좋습니다", "windows-1251": "Сегодня хорошая погода", "koi8-r": "Завтра будет дождь",
	"iso-8859-7": "Σήμερα ο καιρός είναι καλός", "windows-1252": "Où est le café ?",
}

// Text returns the text of page i, and its encoding.
func Text(i int) (text, encoding string) {
	encoding = Encodings()[i%len(Encodings())]
	return fmt.Sprintf("%s %d", words[encoding], i), encoding
}

// Visits is how many times a path was requested.
func (s *Site) Visits(path string) int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.visits[path]
}

// Times are the times of all requests to a host, including robots.txt.
func (s *Site) Times(host string) []time.Time {
	s.mu.Lock()
	defer s.mu.Unlock()
	return append([]time.Time(nil), s.at[host]...)
}

func (s *Site) note(r *http.Request) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.visits == nil {
		s.visits, s.at = map[string]int{}, map[string][]time.Time{}
	}
	s.visits[r.URL.Path]++
	s.at[r.Host] = append(s.at[r.Host], time.Now())
}

func (s *Site) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	s.note(r)
	path, _, _ := strings.Cut(r.URL.Path, ";")
	parts := strings.Split(strings.Trim(path, "/"), "/")
	i, err := 0, error(nil)
	if len(parts) > 1 {
		i, err = strconv.Atoi(parts[len(parts)-1])
	}
	if err != nil || i < 0 {
		http.NotFound(w, r)
		return
	}
	switch parts[0] {
	case "":
		s.page(w, 0)
	case "robots.txt":
		_, _ = fmt.Fprint(w, "User-agent: *\nDisallow: /private/\n")
	case "p", "copy", "slow":
		if parts[0] == "slow" {
			time.Sleep(s.Slow)
		}
		if i >= s.Pages {
			http.NotFound(w, r)
			return
		}
		s.page(w, i)
	case "calendar":
		_, _ = fmt.Fprintf(w, `<title>Day %d</title><a href="/calendar/%d">next</a><a href="/calendar/%d">before</a>`, i, i+1, max(i-1, 0))
	case "deeper": // a relative link that gets longer each time
		_, _ = fmt.Fprintf(w, `<a href="%s/deeper/1">deeper</a>`, path)
	case "moved":
		http.Redirect(w, r, fmt.Sprintf("/p/%d", i), http.StatusMovedPermanently)
	case "loop":
		http.Redirect(w, r, fmt.Sprintf("/loop/%d", (i+1)%3), http.StatusFound)
	case "error":
		http.Error(w, "broken", http.StatusInternalServerError)
	default: // gone, private
		http.NotFound(w, r)
	}
}

// page answers with page i.
func (s *Site) page(w http.ResponseWriter, i int) {
	text, name := Text(i)
	var b strings.Builder
	fmt.Fprintf(&b, "<!doctype html><html><head><meta charset=\"%s\"><title>Page %d</title></head><body><p>%s</p>\n", name, i, text)
	link := func(path string) { fmt.Fprintf(&b, "<a href=\"%s\">%s</a>\n", path, path) }
	for child := 8*i + 1; child <= 8*i+8 && child < s.Pages; child++ {
		link(fmt.Sprintf("/p/%d", child))
	}
	for n := range 4 {
		link(fmt.Sprintf("/p/%d?utm_source=%d", (i*7919+n*104729)%s.Pages, i))
	}
	switch i % 10 {
	case 0:
		link("/calendar/1")
		link("/deeper/1")
	case 1:
		link(fmt.Sprintf("/p/%d;jsessionid=%d", (i+1)%s.Pages, s.session.Add(1)))
	case 2:
		link("/loop/0") // the others are linked nowhere, as a redirect to a known URI is followed no further
	case 3:
		link(fmt.Sprintf("/error/%d", i))
	case 4:
		link(fmt.Sprintf("/slow/%d", i))
	case 5:
		link(fmt.Sprintf("/copy/%d", i))
	case 6:
		link(fmt.Sprintf("/moved/%d", (i*31)%s.Pages))
	case 7:
		link(fmt.Sprintf("/gone/%d", i))
	case 8:
		link(fmt.Sprintf("/private/%d", i))
	case 9:
		fmt.Fprintf(&b, "<a rel=nofollow href=\"/nofollow/%d\">no</a>\n<a href=\"mailto:a@example.com\">mail</a>\n", i)
	}
	b.WriteString("</body></html>\n")
	e, err := htmlindex.Get(name)
	if err != nil {
		panic(err)
	}
	body, err := encoding.HTMLEscapeUnsupported(e.NewEncoder()).String(b.String())
	if err != nil {
		panic(err)
	}
	kind := "text/html"
	if i%2 == 0 { // the others only by meta
		kind += "; charset=" + name
	}
	w.Header().Set("Content-Type", kind)
	_, _ = w.Write([]byte(body))
}

package downloads

import (
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"strconv"
	"strings"
)

const (
	// pageBytes is the length of each page of the site.
	pageBytes = 10_000
	// hosts is the number of loopback addresses of the site. Each of them is a host of its own.
	hosts = 8
	// politeHosts is the number of those whose pages are fetched with a delay.
	politeHosts = 40
)

// Site serves the pages that all programs download, in a process of its own. It prints its port,
// which is the same on all of its addresses, and ends when its standard input does.
func Site() error {
	first, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return err
	}
	port := first.Addr().(*net.TCPAddr).Port
	mux := http.NewServeMux()
	page := []byte("<!DOCTYPE html><html><head><title>A page</title></head><body>" +
		strings.Repeat("<p>Some text as pages have it, with <a href=/page/1>a link</a>.</p>\n", pageBytes/80) + "</body></html>\n")
	page = append(page, strings.Repeat(" ", pageBytes-len(page))...)
	mux.HandleFunc("GET /page/{n}", func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "text/html; charset=utf-8")
		_, _ = w.Write(page)
	})
	mux.HandleFunc("GET /linked/{all}/{n}", linked)
	mux.HandleFunc("GET /script/{n}", func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "text/html; charset=utf-8")
		_, _ = io.WriteString(w, scripted)
	})
	mux.HandleFunc("GET /data.json", func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "application/json")
		_, _ = io.WriteString(w, `{"items": ["one", "two", "three"]}`)
	})
	mux.HandleFunc("GET /robots.txt", func(w http.ResponseWriter, _ *http.Request) {
		_, _ = io.WriteString(w, "User-agent: *\nDisallow: /private\n")
	})
	failed := make(chan error, politeHosts+1)
	serve := func(l net.Listener) { failed <- http.Serve(l, mux) }
	go serve(first)
	for i := 2; i <= politeHosts; i++ {
		l, err := net.Listen("tcp", fmt.Sprintf("127.0.0.%d:%d", i, port))
		if err != nil {
			return err // another program has the port on this address, or this is not Linux
		}
		go serve(l)
	}
	fmt.Println(port)
	go func() {
		_, err := io.Copy(io.Discard, os.Stdin)
		failed <- errors.Join(err, io.EOF)
	}()
	if err := <-failed; !errors.Is(err, io.EOF) {
		return err
	}
	return nil
}

// linked serves page n of all pages. It links to pages 8n+1 to 8n+8, to the previous page and to the
// first.
func linked(w http.ResponseWriter, r *http.Request) {
	n, errN := strconv.Atoi(r.PathValue("n"))
	all, errAll := strconv.Atoi(r.PathValue("all"))
	if errN != nil || errAll != nil || n >= all || n < 0 {
		http.NotFound(w, r)
		return
	}
	var b strings.Builder
	fmt.Fprintf(&b, "<!DOCTYPE html><html><head><meta charset=utf-8><title>Page %d</title></head><body>", n)
	for _, to := range []int{0, max(n-1, 0), 8*n + 1, 8*n + 2, 8*n + 3, 8*n + 4, 8*n + 5, 8*n + 6, 8*n + 7, 8*n + 8} {
		if to < all {
			fmt.Fprintf(&b, "<p><a href=\"/linked/%d/%d\">page %d</a></p>\n", all, to, to)
		}
	}
	for b.Len() < pageBytes {
		fmt.Fprintf(&b, "<p>Some text as pages have it, on page %d.</p>\n", n)
	}
	w.Header().Set("Content-Type", "text/html; charset=utf-8")
	_, _ = io.WriteString(w, b.String()+"</body></html>\n")
}

// scripted is a page whose content comes from a script that requests data.
const scripted = `<!DOCTYPE html><html><head><title>A page</title></head><body><ul id=list></ul><script>
fetch('/data.json').then(r => r.json()).then(d => { for (const item of d.items) {
	const e = document.createElement('li'); e.textContent = item; document.querySelector('#list').append(e);
} });
</script></body></html>
`

// pages returns a list of n pages of a site, on all of its hosts in turn.
func pages(port, n int) string {
	var list strings.Builder
	for i := range n {
		fmt.Fprintf(&list, "http://127.0.0.%d:%d/page/%d\n", 1+i%hosts, port, i)
	}
	return list.String()
}

// Command colly downloads a list of pages with colly, for the benchmark of the downloader: a given
// number at once, each body into a file; with -follow also the pages they link to, as the crawler does. It prints
// the seconds taken and the number of pages as JSON. daemon/bench runs it.
package main

import (
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/gocolly/colly/v2"
)

func main() {
	list := flag.String("uris", "", "`file` with a URI a line")
	dir := flag.String("out", "", "`folder` for the bodies")
	concurrency := flag.Int("concurrency", 1, "downloads at once")
	follow := flag.Bool("follow", false, "follow the links of pages, too")
	flag.Parse()
	if err := run(*list, *dir, *concurrency, *follow); err != nil {
		fmt.Fprintln(os.Stderr, "colly:", err)
		os.Exit(1)
	}
}

func run(list, dir string, concurrency int, follow bool) error {
	text, err := os.ReadFile(list)
	if err != nil {
		return err
	}
	c := colly.NewCollector(colly.Async(true))
	// colly's own transport keeps two connections per host, and opens one for nearly every page.
	c.WithTransport(&http.Transport{MaxIdleConnsPerHost: concurrency, DialContext: (&net.Dialer{Timeout: 10 * time.Second}).DialContext})
	if err := c.Limit(&colly.LimitRule{DomainGlob: "*", Parallelism: concurrency}); err != nil {
		return err
	}
	var pages atomic.Int64
	var once sync.Once
	var failed error
	fail := func(err error) { once.Do(func() { failed = err }) }
	c.OnError(func(_ *colly.Response, err error) { fail(err) })
	c.OnResponse(func(r *colly.Response) {
		if err := r.Save(filepath.Join(dir, strconv.FormatInt(pages.Add(1), 10))); err != nil {
			fail(err)
		}
	})
	if follow {
		c.OnHTML("a[href]", func(e *colly.HTMLElement) {
			var seen *colly.AlreadyVisitedError
			if err := e.Request.Visit(e.Attr("href")); err != nil && !errors.As(err, &seen) {
				fail(err)
			}
		})
	}
	start := time.Now()
	for uri := range strings.FieldsSeq(string(text)) {
		if err := c.Visit(uri); err != nil {
			return fmt.Errorf("%s: %w", uri, err)
		}
	}
	c.Wait()
	spent := time.Since(start)
	if failed != nil {
		return failed
	}
	return json.NewEncoder(os.Stdout).Encode(map[string]any{"seconds": spent.Seconds(), "pages": pages.Load()})
}

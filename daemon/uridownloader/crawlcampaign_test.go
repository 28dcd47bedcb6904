package main

import (
	"flag"
	"fmt"
	"math/rand/v2"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/cr-clawer/urifilter/daemon/internal/testkit/crawltest"
)

var (
	crawlPages   = flag.Int("crawl.pages", 0, "pages of TestCampaignCrawl; 0: it is left out")
	crawlKills   = flag.Int("crawl.kills", 50, "how often the crawl is killed")
	crawlThreads = flag.Int("crawl.threads", 64, "pages that it fetches at once")
	crawlSeed    = flag.Uint64("crawl.seed", 0, "of the kills; 0: chosen by the clock")
)

// TestCampaignCrawl is what go tool mage chaosCrawl runs: one crawl of a site of ten times as many pages,
// with web archive and graph, is killed again and again. An early end is reported, but is no fault.
func TestCampaignCrawl(t *testing.T) {
	if *crawlPages == 0 {
		t.Skip("only with -crawl.pages; TestCrawlKilled runs always")
	}
	seed := *crawlSeed
	if seed == 0 {
		seed = uint64(time.Now().UnixNano()) % 1_000_000
	}
	random := rand.New(rand.NewPCG(seed, 15))
	server := httptest.NewServer(&crawltest.Site{Pages: 10 * *crawlPages, Slow: 300 * time.Millisecond})
	t.Cleanup(server.Close)
	dir := filepath.Join(t.TempDir(), "site")
	index := filepath.Join(dir, "index.ndjson")
	begin := []string{server.URL + "/", "--out", dir, "--allow-private", "--delay", "0", "--threads", strconv.Itoa(*crawlThreads), "--max-pages", strconv.Itoa(*crawlPages), "--warc", "--graph", "dot"}
	began, kills := time.Now(), 0
	fmt.Printf("crawl: seed %d, %d of %d pages, %d threads\n", seed, *crawlPages, 10**crawlPages, *crawlThreads)
	for done := false; !done; {
		cmd, out := crawlProcess(t, resumed(dir, begin)...)
		if err := cmd.Start(); err != nil {
			t.Fatal(err)
		}
		var err error
		ended := make(chan struct{})
		go func() {
			defer close(ended)
			err = cmd.Wait()
		}()
		if kills < *crawlKills {
			// On average the kills are spread over three quarters of the crawl, however fast it is.
			grown := size(index) + random.Int64N(int64(1 + *crawlPages*lineBytes*3/2 / *crawlKills))
			for over := false; !over && size(index) < grown; {
				select {
				case <-ended:
					over = true
				case <-time.After(time.Millisecond):
				}
			}
			time.Sleep(time.Duration(random.IntN(100)) * time.Millisecond) // anywhere in its work
			_ = cmd.Process.Kill()
		}
		<-ended
		switch {
		case err == nil:
			done = true
			fmt.Printf("crawl: %d kills, %v\n%s", kills, time.Since(began).Round(time.Second), out)
		case cmd.ProcessState.ExitCode() == -1:
			if kills++; kills%10 == 0 {
				fmt.Printf("crawl: %d kills, some %d pages\n", kills, size(index)/lineBytes)
			}
		case strings.Contains(out.String(), "there is a crawl in this folder"): // killed before it had an index
			begin = []string{"--resume", "--out", dir}
		default:
			t.Fatalf("%v\n%s", err, out)
		}
	}
	if err := crawltest.Check(dir, *crawlPages); err != nil {
		t.Error(err)
	}
}

// lineBytes is roughly the length of a line of the index.
const lineBytes = 400

// size returns the size of a file, 0 if it does not exist.
func size(path string) int64 {
	info, err := os.Stat(path)
	if err != nil {
		return 0
	}
	return info.Size()
}

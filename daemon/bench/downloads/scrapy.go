package downloads

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
)

// spider downloads the pages of a list with Scrapy and prints a took. Scrapy has its default
// settings, except for the number of downloads at once. The arguments of spider are the list, the
// folder for the bodies, and the number of downloads at once.
const spider = `import json, sys, time
import scrapy

class Bench(scrapy.Spider):
    name = "bench"
    custom_settings = {"CONCURRENT_REQUESTS": int(sys.argv[-1]), "CONCURRENT_REQUESTS_PER_DOMAIN": int(sys.argv[-1]), "TELNETCONSOLE_ENABLED": False}
    pages = 0

    def start_requests(self):
        self.began = time.monotonic()
        for line in open(sys.argv[-3]):
            yield scrapy.Request(line.strip())

    async def start(self):  # Scrapy 2.13 and later
        for request in self.start_requests():
            yield request

    def parse(self, response):
        self.pages += 1
        with open(f"{sys.argv[-2]}/{self.pages}", "wb") as f:
            f.write(response.body)

    def closed(self, reason):
        print(json.dumps({"seconds": time.monotonic() - self.began, "pages": self.pages}))

from scrapy.crawler import CrawlerProcess
process = CrawlerProcess(settings={"LOG_LEVEL": "ERROR"})
process.crawl(Bench)
process.start()
`

// scrapyPages is the most pages that a run of Scrapy has: the result is a rate, and Scrapy is slow.
const scrapyPages = 500

// scrapyPython returns the path of a Python that has Scrapy, or "" if there is none.
func scrapyPython() string {
	for _, name := range []string{"python3", "/usr/bin/python3"} {
		if path, err := exec.LookPath(name); err == nil && exec.Command(path, "-c", "import scrapy").Run() == nil {
			return path
		}
	}
	fmt.Println("\nleft out: Scrapy; no python3 has it. On Debian: apt-get install python3-scrapy")
	return ""
}

// runScrapy is runPeer for Scrapy, whose arguments are positional.
func (o Options) runScrapy(python string, concurrency int) (measured, error) {
	script, list := filepath.Join(o.Dir, "spider.py"), filepath.Join(o.Dir, "spider.uris")
	o.Pages = min(o.Pages, scrapyPages)
	if err := errors.Join(os.WriteFile(script, []byte(spider), 0o600), os.WriteFile(list, []byte(pages(o.port, o.Pages)), 0o600)); err != nil {
		return measured{}, err
	}
	return o.runInto(func(out string) *exec.Cmd {
		return exec.Command(python, script, list, out, fmt.Sprint(concurrency))
	})
}

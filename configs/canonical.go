package configs

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	"github.com/cr-clawer/urifilter/configs/fault"
)

// Canonical is how far a filter normalizes URIs before it compares them. Kinds whose items may be
// URIs have it.
// docs/canonical.md says what it does.
type Canonical struct {
	// Canonical is none (equal bytes are equal items), safe (by the standards) or crawl
	// (sorted query, no fragment, no parameters of canonical_drop). "": none, as it is stored.
	Canonical string `yaml:"canonical"`
	// CanonicalDrop names the parameters that crawl leaves out, separated by commas; a star at
	// the end of a name matches anything, "-" means none. "": canonical_drop of the daemon. A
	// filter keeps the list that it was made with.
	CanonicalDrop string `yaml:"canonical_drop"`
}

// How far URIs are normalized.
const (
	CanonicalNone  = "none"
	CanonicalSafe  = "safe"
	CanonicalCrawl = "crawl"
)

// Tracking names the parameters that say where a visitor came from, or which session it is,
// and nothing about the page.
const Tracking = "utm_*,gclid,gclsrc,dclid,gbraid,wbraid,fbclid,msclkid,yclid,twclid,ttclid," +
	"igshid,mc_cid,mc_eid,mkt_tok,_ga,_gl,_hsenc,_hsmi,vero_id,wickedid," +
	"jsessionid,phpsessid,aspsessionid*,sessionid,session_id,cfid,cftoken"

var canonicalForms = []string{CanonicalNone, CanonicalSafe, CanonicalCrawl}

// canonicalParameters are what people are told about the fields of Canonical.
var canonicalParameters = []Parameter{
	{
		Key: "canonical", Want: `a text, such as "safe"`, Values: canonicalForms, Optional: true,
		Usage: "how far URIs are normalized before they are compared: `none`, safe or crawl",
	},
	{
		Key: "canonical_drop", Want: `a text, such as "utm_*,gclid"`, Of: "canonical", Optional: true,
		Usage: "`names` of the parameters that --canonical crawl leaves out, such as utm_*,gclid; - for none",
	},
}

// complete fills in what was left out.
func (c Canonical) complete(d Defaults) Canonical {
	if c.Canonical == CanonicalNone {
		c.Canonical = "" // as in filters of versions that do not know it
	}
	if c.Canonical == CanonicalCrawl && c.CanonicalDrop == "" {
		c.CanonicalDrop = d.CanonicalDrop
	}
	return c
}

func (c Canonical) faults() []Fault {
	var all []Fault
	if text := fault.OneOf(cmp.Or(c.Canonical, CanonicalNone), canonicalForms...); text != "" {
		all = append(all, Fault{"canonical", text})
	}
	if c.Canonical != CanonicalCrawl && c.CanonicalDrop != "" {
		all = append(all, Fault{"canonical_drop", fmt.Sprintf("%q: is for canonical: crawl", c.CanonicalDrop)})
	} else if text := checkDrop(c.DropNames()); text != "" {
		all = append(all, Fault{"canonical_drop", text})
	}
	return all
}

// checkDrop says what is wrong with names of parameters, which may have a star only at the end.
func checkDrop(names []string) string {
	for _, name := range names {
		plain := strings.TrimSuffix(name, "*")
		if plain == "" || len(name) > 64 || strings.ContainsAny(plain, "*,;&=# \t\r\n") {
			return fmt.Sprintf("%q: want the name of a parameter, such as gclid or utm_*", name)
		}
	}
	return ""
}

// DropNames returns the names in CanonicalDrop.
func (c Canonical) DropNames() []string {
	if c.CanonicalDrop == "" || c.CanonicalDrop == "-" {
		return nil
	}
	return strings.Split(c.CanonicalDrop, ",")
}

// joinDrop returns a list of names in the form of CanonicalDrop.
func joinDrop(names []string) string {
	if len(names) == 0 {
		return "-"
	}
	return strings.Join(slices.Compact(slices.Sorted(slices.Values(names))), ",")
}

// URIs are the parameters of filters that compare URIs.
type URIs interface{ URIs() Canonical }

// URIs implements URIs.
func (c Canonical) URIs() Canonical { return c }

// Canonical returns how far the filter normalizes URIs.
func (f Filter) Canonical() Canonical {
	if p, ok := f.Params.(URIs); ok {
		return p.URIs()
	}
	return Canonical{}
}

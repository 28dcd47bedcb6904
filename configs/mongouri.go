package configs

import (
	"errors"
	"net"
	"net/url"
	"regexp"
	"strconv"
	"strings"

	"github.com/cr-clawer/urifilter/configs/fault"
)

// masked replaces a secret; it consists of letters, so that a URI stays valid.
const masked = "xxxxx"

// CheckMongoDB returns what is wrong with the settings that lead to a database in MongoDB, by
// their keys under section: uri, database and those of TLS.
func CheckMongoDB(section, uri, database string, tls CallTLS) []error {
	var f fault.List
	if err := validMongoURI(uri); err != nil {
		f.Add(section+".uri", "%w", err)
	}
	tls.validate(&f, section+".")
	if database == "" || len(database) > 63 || strings.ContainsAny(database, "/\\. \"$*<>:|?\x00") {
		f.Add(section+".database", `%q: want a name of 1 to 63 bytes without / \ . " $ * < > : | ? or blanks`, database)
	}
	return f
}

// validMongoURI checks the form of a MongoDB connection string, whose host part
// net/url does not read: scheme://[user[:password]@]host[:port],...[/[db][?options]].
// No error contains a part of it, since any part may belong to the password.
func validMongoURI(uri string) error {
	scheme, rest, ok := strings.Cut(uri, "://")
	if !ok || scheme != "mongodb" && scheme != "mongodb+srv" {
		return errors.New("want mongodb://host:port/ or mongodb+srv://host/")
	}
	authority, _, _ := strings.Cut(rest, "/")
	authority, _, _ = strings.Cut(authority, "?")
	userinfo, hosts, found := cutLast(authority, "@")
	if !found {
		hosts = authority
		if strings.Contains(rest, "@") && !strings.Contains(rest, "?") {
			return errors.New("want user and password percent-encoded: a / in them is %2F")
		}
	}
	if strings.Contains(userinfo, "@") || strings.Count(userinfo, ":") > 1 {
		return errors.New("want user and password percent-encoded: an @ in them is %40, a : is %3A")
	}
	if _, err := url.PathUnescape(userinfo); err != nil {
		return errors.New("want user and password percent-encoded: a % in them is %25")
	}
	list := strings.Split(hosts, ",")
	if scheme == "mongodb+srv" && (len(list) != 1 || strings.Contains(hosts, ":")) {
		return errors.New("want one host without a port after mongodb+srv://")
	}
	for _, host := range list {
		name, port := host, "27017"
		if i := strings.LastIndexByte(host, ':'); i > strings.LastIndexByte(host, ']') {
			name, port = host[:i], host[i+1:]
		}
		if name == "" {
			return errors.New("a host is empty: want host or host:port, comma-separated")
		}
		if _, _, err := net.SplitHostPort(name + ":" + port); err != nil {
			return errors.New("a host is malformed: want host or host:port, comma-separated")
		}
		if n, err := strconv.ParseUint(port, 10, 16); err != nil || n == 0 {
			return errors.New("a port is malformed: want 1 to 65535")
		}
	}
	return nil
}

// maskMongoURI hides what may be secret in a connection string, even a malformed
// one, and rather too much than too little: everything between the first colon after the
// scheme and the last @, and the options that carry passwords or session tokens.
func maskMongoURI(uri string) string {
	scheme, rest, ok := strings.Cut(uri, "://")
	if !ok {
		scheme, rest = "", uri
	} else {
		scheme += "://"
	}
	if userinfo, after, found := cutLast(rest, "@"); found {
		if user, _, has := strings.Cut(userinfo, ":"); has {
			rest = user + ":" + masked + "@" + after
		}
	}
	secret := regexp.MustCompile(`(?i)([?&;][a-z]*(?:password|authmechanismproperties)[a-z]*=)[^&;]*`)
	return scheme + secret.ReplaceAllString(rest, "${1}"+masked)
}

// cutLast is strings.Cut at the last sep; without one, all of s is after it.
func cutLast(s, sep string) (before, after string, found bool) {
	if i := strings.LastIndex(s, sep); i >= 0 {
		return s[:i], s[i+len(sep):], true
	}
	return "", s, false
}

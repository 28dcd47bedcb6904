package daemon_test

import (
	"bytes"
	"encoding/json"
	"go/ast"
	"go/parser"
	"go/token"
	"io"
	"io/fs"
	"maps"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
)

// jobRooms are the rooms whose code acts for jobs and crawls, which strangers may write.
var jobRooms = []string{"internal/download", "internal/fetch", "internal/crawl", "uridownloader"}

// opens are the names by which code opens connections, has them opened, or starts programs that could.
var opens = map[string][]string{
	"net": {"Dial", "DialTimeout", "DialTCP", "DialUDP", "DialUnix", "DialIP", "Dialer", "Resolver", "DefaultResolver", "ListenPacket", "ListenUDP",
		"LookupHost", "LookupIP", "LookupAddr", "LookupCNAME", "LookupMX", "LookupNS", "LookupPort", "LookupSRV", "LookupTXT", "FileConn"},
	"net/http":                              {"Client", "Transport", "DefaultClient", "DefaultTransport", "Get", "Head", "Post", "PostForm"},
	"net/rpc":                               {"Dial", "DialHTTP"},
	"net/smtp":                              {"Dial", "SendMail", "NewClient"},
	"crypto/tls":                            {"Dial", "DialWithDialer", "Dialer"},
	"log/syslog":                            {"Dial", "New"},
	"os/exec":                               {"Command", "CommandContext"},
	"os":                                    {"StartProcess"},
	"syscall":                               {"Connect", "Socket", "ForkExec", "Exec", "StartProcess", "SYS_CONNECT", "SYS_SOCKET", "SYS_EXECVE"},
	"golang.org/x/sys/unix":                 {"Connect", "Socket", "Exec", "SYS_CONNECT", "SYS_SOCKET", "SYS_EXECVE"},
	"github.com/wneessen/go-mail":           {"NewClient"},
	"github.com/getsentry/sentry-go":        {"NewClient", "Init"},
	"github.com/redis/go-redis/v9":          {"NewClient", "NewClusterClient", "NewFailoverClient", "NewUniversalClient"},
	"github.com/cr-clawer/urifilter/client": {"New"},
}

// waysOut are all places of these rooms that do so, with the reason why that is safe. A new one asks package
// fetch/guard before it connects, by guard.Dialer, or has a reason that is as good.
var waysOut = map[string]string{
	"internal/fetch/guard: net.Dialer":                                        "the guard's own dialer",
	"internal/fetch: net.Resolver":                                            "names are resolved; their addresses are asked of the guard",
	"internal/fetch: net.DefaultResolver":                                     "names are resolved; their addresses are asked of the guard",
	"internal/fetch: net/http.Transport":                                      "dials by the guard's dialer: hosts of tasks, and proxies of jobs",
	"internal/download/report: net/http.Transport":                            "dials by the guard's dialer: report.webhook of the settings",
	"internal/download/report: net/http.Client":                               "has that transport",
	"internal/download/report: crypto/tls.Dialer":                             "wraps the guard's dialer: report.mail_server of the settings",
	"internal/download/report: github.com/wneessen/go-mail.NewClient":         "dials by the guard's dialer",
	"internal/download/errorreport: net/http.Transport":                       "dials by the guard's dialer: report.dsn of the settings",
	"internal/download/errorreport: net/http.Client":                          "has that transport",
	"internal/download/errorreport: github.com/getsentry/sentry-go.NewClient": "has that client",
	"internal/download/wake: github.com/redis/go-redis/v9.NewUniversalClient": "redis of the settings; what is sent and answered is no job's choice",
	"internal/download/wake: github.com/redis/go-redis/v9.NewClusterClient":   "redis of the settings; what is sent and answered is no job's choice",
	"internal/download/wake: github.com/redis/go-redis/v9.NewClient":          "redis of the settings; what is sent and answered is no job's choice",
	"internal/download/node: github.com/cr-clawer/urifilter/client.New":       "filter.url of the settings",
	"internal/crawl: github.com/cr-clawer/urifilter/client.New":               "--filter of the person who starts the crawl",
	"internal/download/scriptengine: os/exec.Command":                         "job code, in a jail without a network",
	"internal/download/scriptengine: os/exec.CommandContext":                  "asks script.python of the settings for its version",
	"internal/download/browser/chromium: os/exec.Command":                     "the browser, in a jail without sockets; the worker sends its requests",
	"internal/download/script/jail: golang.org/x/sys/unix.SYS_EXECVE":         "a Python, in a jail without a network",
	"internal/download/browser/jail: syscall.Exec":                            "the browser, in a jail without sockets",
	"uridownloader/internal/job: net/http.DefaultTransport":                   "a list of URIs that the caller of the command names, read on the caller's machine",
	"uridownloader/internal/job: net/http.Transport":                          "a list of URIs that the caller of the command names, read on the caller's machine",
	"uridownloader/internal/job: net/http.Client":                             "a list of URIs that the caller of the command names, read on the caller's machine",
	"uridownloader/internal/calls: net/http.DefaultClient":                    "the master that the caller of the command names",
	"uridownloader/internal/calls: net/http.Client":                           "is that client, outside of tests",
}

// dialling are the libraries of others that these rooms import and that could open connections themselves,
// because they import net. Each is one of opens above, or is only used for something else.
var dialling = map[string]string{
	"golang.org/x/crypto/x509roots/fallback":                    "certificates of authorities; it opens nothing",
	"github.com/andybalholm/brotli":                             "only decompresses",
	"github.com/getsentry/sentry-go":                            "in opens",
	"github.com/prometheus/client_golang/prometheus":            "only counts",
	"github.com/prometheus/client_golang/prometheus/collectors": "only counts",
	"github.com/prometheus/client_golang/prometheus/promhttp":   "only answers",
	"github.com/redis/go-redis/v9":                              "in opens",
	"github.com/spf13/cobra":                                    "only reads command lines",
	"github.com/spf13/pflag":                                    "only reads command lines",
	"github.com/wneessen/go-mail":                               "in opens",
	"go.mongodb.org/mongo-driver/v2/mongo":                      "over connections of package mongoconn, to mongodb.uri of the settings",
	"go.mongodb.org/mongo-driver/v2/mongo/options":              "over connections of package mongoconn, to mongodb.uri of the settings",
	"golang.org/x/net/http/httpguts":                            "only checks headers",
	"golang.org/x/net/publicsuffix":                             "only has a list",
}

// Every place from which the downloader or the crawler can reach another machine is known, and asks the guard.
func TestWaysOut(t *testing.T) {
	found := map[string]token.Position{}
	files := token.NewFileSet()
	for _, room := range jobRooms {
		err := filepath.WalkDir(filepath.FromSlash(room), func(path string, d fs.DirEntry, err error) error {
			if err != nil {
				return err
			}
			if d.IsDir() && d.Name() == "testdata" {
				return filepath.SkipDir
			}
			if d.IsDir() || !strings.HasSuffix(path, ".go") || strings.HasSuffix(path, "_test.go") {
				return nil
			}
			file, err := parser.ParseFile(files, path, nil, parser.SkipObjectResolution)
			if err != nil {
				return err
			}
			for what, at := range opened(files, file) {
				found[filepath.ToSlash(filepath.Dir(path))+": "+what] = at
			}
			return nil
		})
		if err != nil {
			t.Fatal(err)
		}
	}
	for way, at := range found {
		if waysOut[way] == "" {
			t.Errorf("%s: %s opens connections or starts programs: have it dial by guard.Dialer, and list it in waysOut", at, way)
		}
	}
	for way := range waysOut {
		if _, is := found[way]; !is {
			t.Errorf("waysOut lists %q, which does not exist", way)
		}
	}
}

// opened returns the names of opens that a file uses.
func opened(files *token.FileSet, file *ast.File) map[string]token.Position {
	names := map[string]string{} // of packages in this file, to their paths
	for _, spec := range file.Imports {
		path, _ := strconv.Unquote(spec.Path.Value)
		if opens[path] == nil {
			continue
		}
		name := path[strings.LastIndex(path, "/")+1:]
		switch path {
		case "github.com/wneessen/go-mail":
			name = "mail"
		case "github.com/getsentry/sentry-go":
			name = "sentry"
		case "github.com/redis/go-redis/v9":
			name = "redis"
		}
		if spec.Name != nil {
			name = spec.Name.Name
		}
		names[name] = path
	}
	found := map[string]token.Position{}
	ast.Inspect(file, func(n ast.Node) bool {
		s, ok := n.(*ast.SelectorExpr)
		if !ok {
			return true
		}
		if x, ok := s.X.(*ast.Ident); ok {
			if path := names[x.Name]; path != "" && slices.Contains(opens[path], s.Sel.Name) {
				found[path+"."+s.Sel.Name] = files.Position(s.Pos())
			}
		}
		return true
	})
	return found
}

// A library of others that can open connections is known, too, with the reason why it does not, or where it does.
func TestLibrariesThatDial(t *testing.T) {
	args := []string{"list", "-deps", "-json=ImportPath,Standard,Imports,Deps,Module"}
	for _, room := range jobRooms {
		args = append(args, "./"+room+"/...")
	}
	out, err := exec.Command("go", args...).Output()
	if err != nil {
		t.Fatal(err)
	}
	type list struct {
		ImportPath string
		Standard   bool
		Imports    []string
		Deps       []string
	}
	const ours = "github.com/cr-clawer/urifilter/"
	all := map[string]list{}
	for d := json.NewDecoder(bytes.NewReader(out)); ; {
		var p list
		if err := d.Decode(&p); err == io.EOF {
			break
		} else if err != nil {
			t.Fatal(err)
		}
		all[p.ImportPath] = p
	}
	found := map[string]string{}
	for path, p := range all {
		inRoom := slices.ContainsFunc(jobRooms, func(room string) bool { return strings.HasPrefix(path+"/", ours+"daemon/"+room+"/") })
		for _, imported := range p.Imports {
			if lib := all[imported]; inRoom && !lib.Standard && !strings.HasPrefix(imported, ours) && slices.Contains(lib.Deps, "net") {
				found[imported] = path
			}
		}
	}
	for _, library := range slices.Sorted(maps.Keys(found)) {
		if dialling[library] == "" {
			t.Errorf("%s imports %s, which can open connections: list it in dialling, and what opens them in opens", found[library], library)
		}
	}
	for library := range dialling {
		if found[library] == "" {
			t.Errorf("dialling lists %s, which is not imported", library)
		}
	}
}

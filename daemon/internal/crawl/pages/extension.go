package pages

import (
	"mime"
	"strings"
)

// extensions are the file extensions of common media types.
var extensions = map[string]string{
	"text/html": "html", "application/xhtml+xml": "html", "text/plain": "txt", "text/css": "css", "text/csv": "csv", "text/markdown": "md",
	"text/calendar": "ics", "text/vcard": "vcf", "text/xml": "xml", "application/xml": "xml", "application/rss+xml": "xml", "application/atom+xml": "xml",
	"text/javascript": "js", "application/javascript": "js", "application/x-javascript": "js", "application/json": "json", "application/ld+json": "json",
	"application/x-ndjson": "ndjson", "application/pdf": "pdf", "application/rtf": "rtf", "application/epub+zip": "epub", "application/msword": "doc",
	"application/vnd.ms-excel": "xls", "application/vnd.ms-powerpoint": "ppt", "application/vnd.oasis.opendocument.text": "odt",
	"application/vnd.openxmlformats-officedocument.wordprocessingml.document": "docx", "application/vnd.openxmlformats-officedocument.spreadsheetml.sheet": "xlsx",
	"application/vnd.openxmlformats-officedocument.presentationml.presentation": "pptx", "application/zip": "zip", "application/gzip": "gz", "application/x-gzip": "gz",
	"application/x-tar": "tar", "application/x-7z-compressed": "7z", "application/vnd.rar": "rar", "application/wasm": "wasm", "application/sql": "sql",
	"image/png": "png", "image/jpeg": "jpg", "image/gif": "gif", "image/webp": "webp", "image/avif": "avif", "image/svg+xml": "svg", "image/bmp": "bmp",
	"image/tiff": "tif", "image/x-icon": "ico", "image/vnd.microsoft.icon": "ico", "audio/mpeg": "mp3", "audio/ogg": "ogg", "audio/wav": "wav", "audio/flac": "flac",
	"audio/mp4": "m4a", "video/mp4": "mp4", "video/webm": "webm", "video/mpeg": "mpg", "video/quicktime": "mov", "font/woff": "woff", "font/woff2": "woff2",
	"font/ttf": "ttf", "font/otf": "otf",
}

// mediaType returns the type of a Content-Type, without parameters and in lower case.
func mediaType(contentType string) string {
	if t, _, err := mime.ParseMediaType(contentType); err == nil {
		return t
	}
	t, _, _ := strings.Cut(contentType, ";")
	return strings.ToLower(strings.TrimSpace(t))
}

// Extension is the file extension for a Content-Type, without dot: bin for unknown types.
func Extension(contentType string) string {
	t := mediaType(contentType)
	switch {
	case extensions[t] != "":
		return extensions[t]
	case strings.HasSuffix(t, "+xml"):
		return "xml"
	case strings.HasSuffix(t, "+json"):
		return "json"
	case strings.HasPrefix(t, "text/"):
		return "txt"
	}
	return "bin"
}

// IsText reports whether bodies of a Content-Type are text, which is stored in UTF-8. All other
// bodies are stored unchanged.
func IsText(contentType string) bool {
	t := mediaType(contentType)
	switch t {
	case "application/xml", "application/javascript", "application/x-javascript", "application/json", "application/x-ndjson", "application/sql", "application/ecmascript":
		return true
	}
	return strings.HasPrefix(t, "text/") || strings.HasSuffix(t, "+xml") || strings.HasSuffix(t, "+json")
}

// IsHTML reports whether bodies of a Content-Type are pages with links.
func IsHTML(contentType string) bool {
	t := mediaType(contentType)
	return t == "text/html" || t == "application/xhtml+xml"
}

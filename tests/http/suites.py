"""The requirements of two public suites, Http11Probe and h1spec, and the tests of ours that have them.

https://github.com/MDA2AV/Http11Probe and https://github.com/uNetworking/h1spec. One requirement a line: its name there,
the rules of `rules` (or `file::test`) that have it here, and, after a bar, why the response is another than the one
that the suite likes best. A name with an underscore is another field; where that could be mistaken (WSGI) it is
dropped.
"""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Requirement:
    name: str
    where: tuple[str, ...]
    difference: str = ""


COMPLIANCE = """
COMP-BASELINE                    plain
COMP-LEADING-CRLF                empty-lines-before       | RFC 9112 section 2.2: a server should ignore them
COMP-WHITESPACE-BEFORE-HEADERS   spaces-before-first
COMP-REQUEST-LINE-TAB            tab-for-space
COMP-SPACE-IN-TARGET             space-in-target
COMP-LONG-URL-OK                 line-of-8000-bytes
COMP-ASTERISK-WITH-GET           target-asterisk-get
COMP-OPTIONS-STAR                asterisk
COMP-ABSOLUTE-FORM               absolute-form
COMP-METHOD-CASE                 method-is-case-sensitive | which methods there are is the application's to know
COMP-UNKNOWN-METHOD              unknown-method           | which methods there are is the application's to know
COMP-METHOD-CONNECT              connect connect-path connect-no-port connect-empty-port
COMP-METHOD-TRACE                trace-is-the-applications | which methods there are is the application's to know
COMP-TRACE-WITH-BODY             trace-with-body          | the same; the body is framed as any other
COMP-TRACE-SENSITIVE             trace-is-the-applications | the server itself echoes nothing
COMP-VERSION-CASE                version-lower-case
COMP-VERSION-MISSING-MINOR       version-no-minor
COMP-VERSION-LEADING-ZEROS       version-zeros
COMP-VERSION-WHITESPACE          version-space
COMP-HTTP12-VERSION              version-1.2              | RFC 9110 section 2.5 would read it as 1.1; nobody speaks it
COMP-UNKNOWN-TE-501              coding-'gzip' coding-'gzip,-chunked'
COMP-DUPLICATE-HOST-SAME         two-equal-hosts
COMP-HOST-EMPTY-VALUE            empty-host               | RFC 9112 section 3.3 lets a server put its own name there
COMP-HOST-WITH-PATH              host-path
COMP-HOST-WITH-USERINFO          host-userinfo
COMP-HTTP10-NO-HOST              http10-without-host      | RFC 9112 section 3.2 asks HTTP/1.1 alone for it
COMP-HTTP10-DEFAULT-CLOSE        http10
COMP-CONNECTION-CLOSE            close
COMP-EXPECT-UNKNOWN              expectation expectation-without-body
COMP-NO-1XX-HTTP10               expect-http10 test_connections.py::test_http10_gets_neither_continue_nor_hints
COMP-POST-CL-BODY                body
COMP-POST-CL-ZERO                body-of-zero
COMP-POST-NO-CL-NO-TE            post-without-framing
COMP-POST-CL-UNDERSEND           test_timeouts.py::test_a_body_that_does_not_come_is_answered
COMP-CHUNKED-BODY                chunked
COMP-CHUNKED-MULTI               chunks
COMP-CHUNKED-EMPTY               no-chunks
COMP-CHUNKED-NO-FINAL            test_connections.py::test_half_a_body_is_never_a_whole_one
COMP-CHUNKED-EXTENSION           extension
COMP-CHUNKED-TRAILER-VALID       trailers
COMP-CHUNKED-HEX-UPPERCASE       chunks
COMP-GET-WITH-CL-BODY            get-with-body            | RFC 9110 section 9.3.1 leaves it to the application
COMP-HEAD-NO-BODY                head head-with-body test_connections.py::test_responses_without_a_body
COMP-NO-CL-IN-204                test_connections.py::test_responses_without_a_body
COMP-DATE-HEADER                 test_connections.py::test_date_and_server_are_said_once
COMP-DATE-FORMAT                 test_connections.py::test_date_and_server_are_said_once
COMP-405-ALLOW                   test_static.py::test_other_methods_are_refused
COMP-OPTIONS-ALLOW               test_static.py::test_other_methods_are_refused | elsewhere the application's
COMP-CONTENT-TYPE                test_static.py::test_types_are_by_suffix       | elsewhere the application's
COMP-RANGE-INVALID               test_static.py::test_ranges_that_are_none_are_left_out
COMP-RANGE-POST                  test_static.py::test_other_methods_are_refused | of a file; elsewhere the application's
COMP-ACCEPT-NONSENSE             test_static.py::test_types_are_by_suffix | a file has one type
COMP-DUPLICATE-CT                fields-kept-apart        | only fields of framing are the server's to judge
COMP-POST-UNSUPPORTED-CT         body
RFC9110-5.4-DUPLICATE-HOST       two-hosts
RFC9110-5.6.2-SP-BEFORE-COLON    space-before-colon
RFC9112-2.2-BARE-LF-HEADER       bare-lf-of-field
RFC9112-2.2-BARE-LF-REQUEST-LINE bare-lf-of-line
RFC9112-2.3-HTTP09-REQUEST       http09 http09-with-fields
RFC9112-2.3-INVALID-VERSION      version-9.9
RFC9112-3-CR-ONLY-LINE-ENDING    bare-cr-of-line bare-crs
RFC9112-3-MISSING-TARGET         no-target
RFC9112-3-MULTI-SP-REQUEST-LINE  two-spaces two-spaces-before-version
RFC9112-3.2-FRAGMENT-IN-TARGET   target-fragment
RFC9112-5-EMPTY-HEADER-NAME      no-name
RFC9112-5-HEADER-NO-COLON        no-colon
RFC9112-5-INVALID-HEADER-NAME    name-brackets
RFC9112-5.1-OBS-FOLD             obs-fold obs-fold-tab
RFC9112-6.1-CL-NON-NUMERIC       length-text
RFC9112-6.1-CL-PLUS-SIGN         length-plus
RFC9112-7.1-MISSING-HOST         no-host
WS-UPGRADE-POST                  test_websocket_handshake.py::test_a_request_that_is_no_handshake_is_a_request
WS-UPGRADE-MISSING-CONN          upgrade-without-connection
WS-UPGRADE-UNKNOWN               upgrade-unknown
WS-UPGRADE-INVALID-VER           test_websocket_handshake.py::test_refused
WS-UPGRADE-HTTP10                http10-upgrade-ignored
"""

SMUGGLING = """
SMUG-CL-TE-BOTH                  length-and-chunked chunked-and-length
SMUG-CLTE-PIPELINE               length-and-chunked
SMUG-CLTE-DESYNC                 length-and-chunked
SMUG-CLTE-CONN-CLOSE             length-and-chunked
SMUG-CLTE-SMUGGLED-GET           length-and-chunked
SMUG-CLTE-SMUGGLED-HEAD          length-and-chunked
SMUG-CLTE-SMUGGLED-GET-CL-PLUS   chunked-and-bad-length
SMUG-CLTE-SMUGGLED-GET-CL-NON-NUMERIC    chunked-and-bad-length
SMUG-CLTE-SMUGGLED-GET-TE-TRAILING-SPACE length-and-chunked
SMUG-CLTE-SMUGGLED-GET-TE-LEADING-COMMA  coding-',-chunked'
SMUG-CLTE-SMUGGLED-GET-TE-CASE-MISMATCH  length-and-chunked
SMUG-CLTE-SMUGGLED-GET-TE-OBS-FOLD       fold-of-framing
SMUG-TECL-PIPELINE               chunked-and-length
SMUG-TECL-DESYNC                 chunked-and-length
SMUG-TECL-CONN-CLOSE             chunked-and-length
SMUG-TECL-SMUGGLED-GET           chunked-and-length
SMUG-DUPLICATE-CL                length-twice length-twice-other
SMUG-DUPLICATE-CL-SMUGGLED-GET   length-twice-other
SMUG-CL-LEADING-ZEROS            length-is-never-octal    | RFC 9110 section 8.6: digits, decimal ones
SMUG-CL-LEADING-ZEROS-OCTAL      length-is-never-octal    | the same
SMUG-CL-DOUBLE-ZERO              length-of-zeros          | the same
SMUG-CL-OCTAL                    length-octal
SMUG-CL-HEX-PREFIX               length-hex
SMUG-CL-NEGATIVE                 length-minus
SMUG-CL-NEGATIVE-ZERO            length-minus-zero
SMUG-CL-UNDERSCORE               length-underscore
SMUG-CL-INTERNAL-SPACE           length-space
SMUG-CL-TRAILING-SPACE           length-with-white-space  | RFC 9110 section 5.5: no part of the value
SMUG-CL-EXTRA-LEADING-SP         length-with-white-space  | the same
SMUG-CL-COMMA-SAME               length-list
SMUG-CL-COMMA-DIFFERENT          length-list-other
SMUG-CL-COMMA-TRIPLE             length-list-of-three
SMUG-CL0-BODY-POISON             body-of-zero unknown-method | what follows is the next request, whatever its method
SMUG-GET-CL-BODY-DESYNC          get-with-body
SMUG-GET-CL-PREFIX-DESYNC        get-with-a-request-as-body
SMUG-HEAD-CL-BODY                head-with-body head-with-a-request-as-body
SMUG-OPTIONS-CL-BODY             options-with-body        | RFC 9110 section 9.3.7 leaves it to the application
SMUG-OPTIONS-CL-BODY-DESYNC      options-with-a-request-as-body
SMUG-EXPECT-100-CL               test_connections.py::test_continue_is_asked_for_when_the_application_receives
SMUG-EXPECT-100-CL-DESYNC        test_connections.py::test_a_body_that_was_not_asked_for_closes
SMUG-TE-XCHUNKED                 coding-'xchunked'
SMUG-TE-IDENTITY                 coding-'identity' chunked-and-identity identity-and-chunked
SMUG-TE-NOT-FINAL-CHUNKED        coding-'chunked,-gzip' coding-'chunked,-identity'
SMUG-TE-DOUBLE-CHUNKED           coding-'chunked,-chunked' chunked-twice
SMUG-TE-DUPLICATE-HEADERS        chunked-and-identity chunked-twice
SMUG-TE-DUPLICATE-HEADERS-SMUGGLED-GET chunked-and-identity chunked-twice
SMUG-TE-EMPTY-VALUE              coding-''
SMUG-TE-LEADING-COMMA            coding-',-chunked'
SMUG-TE-TRAILING-COMMA           coding-'chunked,'
SMUG-TE-TRAILING-SPACE           length-and-chunked coding-with-white-space
SMUG-TE-TAB-BEFORE-VALUE         coding-with-white-space  | RFC 9110 section 5.5: no part of the value
SMUG-TE-CASE-MISMATCH            length-and-chunked chunked-case
SMUG-TE-SP-BEFORE-COLON          chunked-space-before-colon
SMUG-TE-OBS-FOLD                 fold-of-framing
SMUG-OPTIONS-TE-OBS-FOLD         fold-of-framing
SMUG-TE-VTAB                     coding-'\\x0bchunked'
SMUG-TE-FORMFEED                 coding-'\\x0cchunked'
SMUG-TE-NULL                     coding-'chunked\\x00'
SMUG-TE-HTTP10                   chunked-http10
SMUG-TRANSFER_ENCODING           coding-with-underscore test_wsgi_environ.py::test_names_with_an_underscore_are_dropped
SMUG-CHUNKED-WITH-PARAMS         coding-'chunked;a=b'
SMUG-CHUNK-BARE-SEMICOLON        chunk-extension-empty
SMUG-CHUNK-EXT-INVALID-TOKEN     chunk-extension-characters
SMUG-CHUNK-EXT-LF                chunk-extension-lf
SMUG-CHUNK-EXT-CR                chunk-extension-cr
SMUG-CHUNK-EXT-CTRL              chunk-extension-nul
SMUG-CHUNK-HEX-PREFIX            chunk-size-0x
SMUG-CHUNK-SIZE-PLUS             chunk-size-plus
SMUG-CHUNK-INVALID-SIZE-DESYNC   chunk-size-plus
SMUG-CHUNK-SIZE-TRAILING-OWS     chunk-size-space-behind chunk-size-tab-behind
SMUG-CHUNK-LEADING-SP            chunk-size-space-before
SMUG-CHUNK-UNDERSCORE            chunk-size-underscore
SMUG-CHUNK-NEGATIVE              chunk-size-minus
SMUG-CHUNK-BARE-CR-TERM          chunk-line-cr
SMUG-CHUNK-LF-TERM               chunk-data-lf
SMUG-CHUNK-LF-TRAILER            chunk-last-lf-lf chunk-trailer-lf
SMUG-CHUNK-MISSING-TRAILING-CRLF chunk-data-no-end
SMUG-CHUNK-SPILL                 chunk-data-spilled chunk-data-long
SMUG-TRAILER-CL                  chunk-trailer-length
SMUG-TRAILER-TE                  chunk-trailer-coding
SMUG-TRAILER-HOST                chunk-trailer-host
SMUG-TRAILER-AUTH                trailers-are-no-fields   | RFC 9110 section 6.5.1: dropped, never merged into the head
SMUG-TRAILER-CONTENT-TYPE        trailers-are-no-fields   | the same
SMUG-BARE-CR-HEADER-VALUE        bare-cr-in-value
SMUG-HEADER-INJECTION            fields-kept-apart        | two right fields are two fields
SMUG-MULTIPLE-HOST-COMMA         host-list
SMUG-ABSOLUTE-URI-HOST-MISMATCH  absolute-other-host      | RFC 9112 section 3.2.2: the server must ignore the Host
SMUG-PIPELINE-SAFE               plain test_connections.py::test_sixteen_requests_in_one_write
"""

MALFORMED = """
MAL-BINARY-GARBAGE               tls-hello test_random_bytes.py::test_random_streams
MAL-LONG-URL                     line-long line-endless
MAL-LONG-HEADER-NAME             name-long
MAL-LONG-HEADER-VALUE            head-long head-endless
MAL-LONG-METHOD                  method-long method-endless | 400, or 414 for the line
MAL-MANY-HEADERS                 fields-many
MAL-NUL-IN-URL                   target-nul
MAL-NUL-IN-HEADER-VALUE          value-nul
MAL-CONTROL-CHARS-HEADER         value-control value-vertical-tab
MAL-NON-ASCII-HEADER-NAME        name-not-ascii
MAL-NON-ASCII-URL                target-not-ascii
MAL-URL-OVERLONG-UTF8            target-overlong percent-overlong
MAL-URL-BACKSLASH                backslash                | clients send it; never turned into a slash
MAL-URL-PERCENT-CRLF             percent-crlf             | right by RFC 3986; decoded once, after parsing
MAL-URL-PERCENT-NULL             percent-nul              | the same
MAL-CL-EMPTY                     length-empty
MAL-CL-OVERFLOW                  length-overflow length-huge
MAL-CL-TAB-BEFORE-VALUE          length-with-white-space  | RFC 9110 section 5.5: no part of the value
MAL-CHUNK-SIZE-OVERFLOW          chunk-size-overflow chunk-size-huge
MAL-CHUNK-EXT-64K                chunk-extension-long
MAL-POST-CL-HUGE-NO-BODY         test_timeouts.py::test_a_body_that_does_not_come_is_answered body-limit
MAL-RANGE-OVERLAPPING            test_static.py::test_ranges_that_are_none_are_left_out | the whole file, once
MAL-INCOMPLETE-REQUEST           test_timeouts.py::test_a_head_that_does_not_end_is_answered
MAL-EMPTY-REQUEST                test_timeouts.py::test_an_idle_connection_is_closed
MAL-WHITESPACE-ONLY-LINE         spaces-alone
MAL-H2-PREFACE                   test_http2.py::test_http1_beside_and_without
NORM-CASE-TE                     coding-of-name-case      | ASGI: names in lower case; the framing is the same
NORM-SP-BEFORE-COLON-CL          length-space-before-colon
NORM-TAB-IN-NAME                 name-tab
NORM-UNDERSCORE-CL               length-with-underscore test_wsgi_environ.py::test_names_with_an_underscore_are_dropped
NORM-UNDERSCORE-TE               coding-with-underscore test_wsgi_environ.py::test_names_with_an_underscore_are_dropped
CAP-ETAG-304                     test_static.py::test_conditions
CAP-ETAG-IN-304                  test_static.py::test_conditions
CAP-ETAG-WEAK                    test_static.py::test_conditions_at_the_edge
CAP-INM-PRECEDENCE               test_static.py::test_conditions_at_the_edge
CAP-INM-UNQUOTED                 test_static.py::test_conditions_at_the_edge
CAP-INM-WILDCARD                 test_static.py::test_conditions
CAP-LAST-MODIFIED-304            test_static.py::test_conditions
CAP-IMS-INVALID                  test_static.py::test_conditions_at_the_edge
CAP-IMS-FUTURE                   test_static.py::test_conditions_at_the_edge | RFC 9110 has no such rule
COOK-ECHO                        fields-kept-apart
COOK-MULTI-HEADER                test_asgi_scope.py::test_as_uvicorn
COOK-EMPTY                       empty-value
COOK-MALFORMED                   cookie-without-sense
COOK-MANY-PAIRS                  cookie-without-sense     | one value of some kilobytes is one value
COOK-OVERSIZED                   head-long
COOK-NUL                         value-nul
COOK-CONTROL-CHARS               value-control
"""

H1SPEC = """
Fragmented-method                test_timeouts.py::test_a_head_byte_by_byte_has_one_deadline plain
Fragmented-URL                   test_timeouts.py::test_a_head_byte_by_byte_has_one_deadline query
Fragmented-HTTP-version          test_connections.py::test_half_a_head_and_the_end plain
Fragmented-request-line          test_timeouts.py::test_a_head_that_does_not_end_is_answered plain
Fragmented-field-name            test_timeouts.py::test_a_head_byte_by_byte_has_one_deadline no-space-after-colon
Fragmented-field-value           test_timeouts.py::test_a_head_byte_by_byte_has_one_deadline white-space-around-value
Fragmented-request-termination   test_connections.py::test_half_a_head_and_the_end plain
Request-without-HTTP-version     version-empty
Request-with-Expect-header       expect-without-body
Valid-GET-request                plain
Valid-GET-request-with-edge-cases lower-case-name no-space-after-colon empty-value
Invalid-header-characters        name-brackets
Missing-Host-header              no-host
Multiple-Host-headers            two-hosts
Overflowing-negative-Content-Length length-minus length-huge
Negative-Content-Length          length-minus
Non-numeric-Content-Length       length-text
Empty-header-value               empty-value
Invalid-control-character        value-control
Invalid-HTTP-version             version-9.9
Invalid-prefix-of-request        text-before-method
Invalid-line-ending              bare-cr-before-field
Valid-POST-request-with-body     body
Conflicting-framing              chunked-and-length
"""


def _read(table: str) -> list[Requirement]:
    found = []
    for line in table.strip().splitlines():
        left, _, difference = line.partition(" | ")
        name, *where = left.split()
        # `coding-'a,-b'` stands for the rule `coding-'a, b'`: a name has no spaces here.
        found.append(Requirement(name, tuple(word.replace(",-", ", ") for word in where), difference.strip()))
    return found


REQUIREMENTS = [*_read(COMPLIANCE), *_read(SMUGGLING), *_read(MALFORMED), *_read(H1SPEC)]

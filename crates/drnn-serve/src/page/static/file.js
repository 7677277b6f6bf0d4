// Not a module, so that it also runs where the page was opened as a file, which modules do not.
if (location.protocol === "file:") {
  const notice = document.getElementById("trouble");
  notice.hidden = false;
  notice.textContent = "Browsers run this page only from a web server, any one: python3 -m http.server in its folder, for example.";
}
